import torch
from torch import Tensor

from training_checklist.instruments import (
    Data,
    Example,
    MappedDataset,
    Split,
    agreement,
    fits,
    is_less,
    label_fits,
    labelled,
    on_datasets,
)
from training_checklist.probe import WARNING, CannotJudge, Fix, Hit, Hits, Limits, Probe, Threshold, each_held_out


@each_held_out
def detect(data: Data, split: Split, limits: Limits) -> Hits:
    for fit in label_fits(data, split):
        if not fits(fit.within) or not fits(fit.held):
            raise CannotJudge("class centres do not tell the classes of both splits")
        least = limits.min_alike * min(agreement(fit.within), agreement(fit.held))
        if is_less(fit.across, least) and not fit.moved():
            yield Hit(
                f"inputs of {split.name} look unlike those of training: {agreement(fit.across):.0%} of them lie "
                f"nearest to the training set's centre of their class, {agreement(fit.within):.0%} of the training set "
                f"do, and {agreement(fit.held):.0%} lie nearest to that of their own split",
                split.place,
            )


def of_another_kind(number: int) -> Example:
    """Hold out inputs of which those of so many classes lie near to another class."""
    centres = 4 * torch.eye(8)[:4]
    moved = centres.clone()
    moved[4 - number :] = 4 * torch.eye(8)[:number] + 2 * torch.eye(8)[4 : 4 + number]

    def change(places: Tensor) -> MappedDataset:
        return MappedDataset(lambda index, x, y: (places[y] + 0.3 * torch.randn(8), y), labelled(500))

    return on_datasets(lambda: change(centres), lambda: change(moved))


PROBE = Probe(
    question="Do the inputs of validation and testing look like those of training?",
    why="the network is validated on another kind of input than it is trained on: compare height and width, "
    "orientation, colours and crops",
    severity=WARNING,
    may_be_wrong="validation on another domain, scanner or year is meant to look different",
    fix=Fix("let both splits go through the same transforms, but for random ones"),
    detect=detect,
    faulty=of_another_kind(2),
    healthy=of_another_kind(1),
    thresholds={
        "min_alike": Threshold(
            0.7,
            "of the lesser share that fits within a split; over digits, tables, spectrograms and recordings of several "
            "speakers, augmented in six ways and cut ten times, it was never below 0.92",
            factor=1.5,
        )
    },
)
