from typing import Any

import torch
from torch.utils.data import DataLoader

from training_checklist.instruments import Data, MappedDataset, Split, batches, differing, labelled, load, on_datasets
from training_checklist.probe import WARNING, Fix, Hit, Hits, Limits, Probe, Threshold

SAMPLES = 16  # that are loaded twice


def detect(data: Data, limits: Limits) -> Hits:
    for split in data.splits:
        loader, number = split.loader, batches(split)
        left = (split.samples or 0) - number * (loader.batch_size or 0)
        # A share of n samples has a standard error of at most 1 / (2 * sqrt(n)).
        is_much = 2 * left > limits.max_left * (split.samples or 0) ** 0.5
        if not (loader.drop_last and number and loader.batch_size and is_much):
            continue
        order = split.order()
        if order is not None and order == split.order() == sorted(order) and not is_drawn(data, split):
            yield Hit(
                f"{left} of {split.samples} samples of {split.name} are in no batch of any epoch: drop_last=True, "
                f"batch_size={loader.batch_size}, always in the same order",
                split.place,
            )


def is_drawn(data: Data, split: Split) -> bool:
    """Whether a sample is another one each time, whatever its index, as a window that begins anywhere in a text."""
    if not split.indexable:
        return False
    one, two = (load(split, split.chosen(SAMPLES), data.roles, data.trainer, data.until) for _ in range(2))
    pairs = [(one.values[place], two.values[place]) for place in one.values.keys() & two.values.keys()]
    return any(now.shape != then.shape or bool(differing(now, then).any()) for now, then in pairs)


class Anywhere(MappedDataset):
    """Gives a sample that is drawn, whatever it is asked for."""

    def __init__(self) -> None:
        super().__init__(lambda index, x, y: (x, y), labelled(28))

    def __getitem__(self, index: int) -> Any:
        return super().__getitem__(int(torch.randint(28, ())))


PROBE = Probe(
    question="Is every sample loaded in some epoch, and none always left out by drop_last=True?",
    why="they are neither learned from nor measured, and they are always the same ones",
    severity=WARNING,
    fix=Fix("drop_last=False for validation and testing; shuffle=True for training"),
    thresholds={
        "max_left": Threshold(
            1.0,
            "standard errors of a share of all samples: more samples that are left out can move a metric by more",
            factor=6,
            healthy=on_datasets(held_out=lambda: DataLoader(labelled(33), 16, drop_last=True)),
        )
    },
    detect=detect,
    faulty=on_datasets(held_out=lambda: DataLoader(labelled(28), 16, drop_last=True)),
    healthy=on_datasets(held_out=lambda: DataLoader(labelled(28), 16, drop_last=True, shuffle=True)),
    also_healthy=(on_datasets(held_out=lambda: DataLoader(Anywhere(), 16, drop_last=True)),),
)
