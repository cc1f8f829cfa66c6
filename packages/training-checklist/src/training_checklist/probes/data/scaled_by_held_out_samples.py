import torch
from torch.utils.data import TensorDataset

from training_checklist.instruments import Data, Example, Split, normal, on_datasets, scaling
from training_checklist.probe import Fix, Hit, Hits, Limits, Probe, each_held_out


@each_held_out
def detect(data: Data, split: Split, limits: Limits) -> Hits:
    for found in scaling(data, split):
        most = found.columns / 2
        for kind, counts in (("mean 0 and deviation 1", found.standard), ("a range from 0 to 1", found.ranged)):
            # That least and largest values of the training set are those of both is nothing: one split has them.
            both = counts["both"] > most and counts["train"] <= most
            if both and (kind.startswith("mean") or counts["both"] == found.columns > counts["train"] + 1):
                yield Hit(
                    f"{counts['both']} of {found.columns} columns have {kind} over the samples of the training set "
                    f"and {split.name} together, and {counts['train']} over those of the training set alone",
                    split.place.beside(note=found.place),
                )
                break


def scaled(together: bool, by_range: bool = False) -> Example:
    train, held = normal(160, 8), normal(160, 8, seed=1)
    by, labels = torch.cat([train, held]) if together else train, (train[:, 0] > 0).long()
    zero, one = (by.amin(0), by.amax(0) - by.amin(0)) if by_range else (by.mean(0), by.std(0))
    train, held = ((each - zero) / one for each in (train, held))
    return on_datasets(lambda: TensorDataset(train, labels), lambda: TensorDataset(held, labels))


PROBE = Probe(
    question="Are inputs standardised with the mean and deviation of the training set alone?",
    why="what is held out has had a part in the preparation of the training data: it is no longer unseen",
    fix=Fix("split first; then take mean and deviation of the training set, and scale every split by them"),
    detect=detect,
    faulty=scaled(together=True),
    also_faulty=(scaled(together=True, by_range=True),),
    healthy=scaled(together=False),
    also_healthy=(scaled(together=False, by_range=True),),
)
