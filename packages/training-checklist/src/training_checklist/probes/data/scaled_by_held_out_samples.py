from functools import partial

import torch
from torch.utils.data import TensorDataset

from training_checklist.instruments import Data, Example, Split, normal, on_datasets, scaling
from training_checklist.probe import Fix, Hit, Hits, Limits, Probe, each_held_out


@each_held_out
def detect(data: Data, split: Split, limits: Limits) -> Hits:
    for found in scaling(data, split):
        most = found.columns / 2
        held_out = {"both": f"{split.name} together"}
        if split is data.held_out[-1]:
            held_out["all"] = "all that is held out, together"
        for kind, counts in (("mean 0 and deviation 1", found.standard), ("a range from 0 to 1", found.ranged)):
            # That least and largest values of the training set are those of all is nothing: one split has them.
            least = most if kind.startswith("mean") else max(most, counts["train"] + 1, found.columns - 1)
            whole = next((name for name in held_out if counts.get(name, 0) > least), None)
            if whole is not None and counts["train"] <= most:
                yield Hit(
                    f"{counts[whole]} of {found.columns} columns have {kind} over the samples of the training set "
                    f"and {held_out[whole]}, and {counts['train']} over those of the training set alone",
                    split.place.beside(note=found.place),
                )
                break


def scaled(together: bool, by_range: bool = False, test: bool = False) -> Example:
    parts = [normal(160, 8), normal(160, 8, seed=1), normal(160, 8, seed=2)]
    by, labels = torch.cat(parts[: 2 + test]) if together else parts[0], (parts[0][:, 0] > 0).long()
    zero, one = (by.amin(0), by.amax(0) - by.amin(0)) if by_range else (by.mean(0), by.std(0))
    train, held, tested = (partial(TensorDataset, (each - zero) / one, labels) for each in parts)
    return on_datasets(train, held, tested if test else None)


PROBE = Probe(
    question="Are inputs standardised with the mean and deviation of the training set alone?",
    why="what is held out has had a part in the preparation of the training data: it is no longer unseen",
    fix=Fix("split first; then take mean and deviation of the training set, and scale every split by them"),
    detect=detect,
    faulty=scaled(together=True),
    also_faulty=(
        scaled(together=True, by_range=True),
        scaled(together=True, test=True),
        scaled(together=True, by_range=True, test=True),
    ),
    healthy=scaled(together=False),
    also_healthy=(scaled(together=False, by_range=True), scaled(together=False, test=True)),
)
