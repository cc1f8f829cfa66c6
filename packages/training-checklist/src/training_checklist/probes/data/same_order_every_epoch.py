from collections.abc import Iterator

import torch
from torch.utils.data import DataLoader, Sampler

from training_checklist.instruments import Example, TwoEpochs, samples
from training_checklist.probe import WARNING, CannotJudge, Fix, Hit, Hits, Limits, Probe


def detect(run: TwoEpochs, limits: Limits) -> Hits:
    found = run.epochs.between.drawn_orders()
    if not found:
        raise CannotJudge("training reads its samples in the order of the dataset, or as they come")
    for orders in found:
        first, *later = orders.batches or [[]]
        # One batch again and again has one order.
        if orders.draws and later and len(set(first)) > 1 and all(each == first for each in later):
            yield Hit(
                f"{orders.sampler} shuffles, and the first {len(first)} batches of all epochs have the same samples",
                orders.place,
            )


class Seeded(Sampler):
    """Shuffles by a seed, and by the epoch, too."""

    def __init__(self, by_epoch: bool) -> None:
        self.seed, self.by_epoch, self.epoch = 1, by_epoch, 0

    def set_epoch(self, epoch: int) -> None:
        self.epoch = epoch * self.by_epoch

    def __len__(self) -> int:
        return 32

    def __iter__(self) -> Iterator[int]:
        generator = torch.Generator().manual_seed(self.seed + self.epoch)
        return iter(torch.randperm(32, generator=generator).tolist())


def shuffled(by_epoch: bool) -> Example:
    return Example(loader=lambda: DataLoader(samples(), 4, sampler=Seeded(by_epoch)))


PROBE = Probe(
    item="learning",
    question="Are training data shuffled anew in each epoch?",
    why="batches hold the same samples together again and again, and come in one order: shuffled once and never again",
    severity=WARNING,
    fix=Fix(
        "draw by seed and epoch: generator.manual_seed(self.seed + self.epoch), with set_epoch, which Lightning calls"
    ),
    detect=detect,
    faulty=shuffled(by_epoch=False),
    healthy=shuffled(by_epoch=True),
)
