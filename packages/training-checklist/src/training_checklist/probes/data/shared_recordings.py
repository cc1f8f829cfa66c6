from typing import Any

import numpy as np
from torch import Tensor

from training_checklist.instruments import Data, Example, MappedDataset, Split, digest_row, normal, on_datasets, origin
from training_checklist.probe import CannotJudge, Fix, Hit, Hits, Limits, Probe, Threshold, each_held_out


@each_held_out
def detect(data: Data, split: Split, limits: Limits) -> Hits:
    """Compare the lists of tensors that two datasets keep, such as recordings of which samples are windows.

    Where both keep the same, each may read a part of it.
    """
    (base, _), (other, _) = origin(data.train.dataset), origin(split.dataset)
    for name, kept in getattr(other, "__dict__", {}).items() if type(base) is type(other) else ():
        own, theirs = tensors_in(getattr(base, name, None), limits), tensors_in(kept, limits)
        if base is other or len(theirs) < limits.least_recordings or len(own) <= len(theirs):
            continue
        known = {digest_row(each) for each in own}
        shared = sum(digest_row(each) in known for each in theirs)
        if shared > limits.max_recordings * len(theirs):
            yield Hit(
                f"{shared} of {len(theirs)} {name} of {split.name} are in the training set too, which has more of them",
                split.place.beside(note=name),
            )
        return
    raise CannotJudge("the datasets keep no lists of recordings")


def tensors_in(kept: Any, limits: Limits) -> list[Any]:
    """Return the tensors or arrays of a list of nothing else, each with enough numbers to be told from others."""
    whole = isinstance(kept, (list, tuple)) and all(isinstance(each, (Tensor, np.ndarray)) for each in kept)
    return list(kept) if whole and all(len(each.reshape(-1)) >= limits.least_numbers for each in kept) else []


class Windows(MappedDataset):
    """A window of each of its recordings."""

    def __init__(self, series: list[Tensor]) -> None:
        super().__init__(lambda index, x: (x[:8], index % 4), [(each,) for each in series])
        self.series = series


def with_duplicates(number: int, of: int, numbers: int = 20) -> Example:
    train, held = normal(260, numbers), normal(of, numbers, seed=1)
    held[:number] = train[:number]
    return on_datasets(lambda: Windows([*train]), lambda: Windows([*held]))


PROBE = Probe(
    question="Are the recordings that validation and test samples are cut from absent from the training set?",
    why="the network knows these recordings, whatever augmentation or windows make of them: its metrics there say "
    "nothing about new data",
    fix=Fix("read each split from files of its own, and split before samples are cut"),
    detect=detect,
    faulty=with_duplicates(2, of=100),
    healthy=with_duplicates(1, of=200),
    thresholds={
        "max_recordings": Threshold(0.01, "share of recordings with an exact copy, as for samples (shared-samples)"),
        "least_recordings": Threshold(
            3,
            "tensors, and fewer are no list of recordings",
            faulty=with_duplicates(4, of=4),
            healthy=with_duplicates(2, of=2),
        ),
        "least_numbers": Threshold(
            16, "numbers of a recording, in which two of them differ", healthy=with_duplicates(2, of=100, numbers=10)
        ),
    },
)
