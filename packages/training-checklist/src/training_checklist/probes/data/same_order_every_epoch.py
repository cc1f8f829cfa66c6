import re
from collections.abc import Iterator

import torch
from torch.utils.data import DataLoader, Sampler

from training_checklist.instruments import DrawnIndices, EpochListener, Example, Split, TwoEpochs, samples, splits
from training_checklist.lightning import LightningModule, Trainer
from training_checklist.probe import WARNING, CannotJudge, Fix, Hit, Hits, Limits, Probe

DRAWS = re.compile("seed|generator|rng|random|epoch|shuffle")


class EpochOrders(EpochListener):
    """Keeps what the sampler of training draws, where that is not the order of the dataset: of `shuffled`."""

    def __init__(self, run: TwoEpochs) -> None:
        super().__init__(run)
        self.drawn, self.epochs = self.watching.enter_context(DrawnIndices()), 0
        self.shuffled: Split | None = None

    def on_train_epoch_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self.epochs += 1
        found = splits("train", trainer.train_dataloader)
        order = found[0].order() if len(found) == 1 and self.shuffled is None else None
        if order is not None and order != sorted(order):
            self.shuffled = found[0]

    def orders(self) -> list[list[str]]:
        """Return by epoch, of each batch its positions in the dataset, as text."""
        passes = self.drawn.by_pass(self.shuffled.loader)[-self.epochs :]
        length = min(map(len, passes), default=0)
        return [[str(batch) for batch in each[:length]] for each in passes]


def draws(loader: DataLoader) -> bool:
    """Whether a loader's samplers, or those that they draw from, have anything to draw with."""
    holders = [loader.sampler, loader.batch_sampler]
    inner = [value for holder in holders for value in getattr(holder, "__dict__", {}).values()]
    holders += [value for value in inner if isinstance(value, Sampler)]
    return any(DRAWS.search(name) for holder in holders for name in getattr(holder, "__dict__", {}))


def detect(run: TwoEpochs, limits: Limits) -> Hits:
    split = run.heard().shuffled
    if split is None:
        raise CannotJudge("training reads its samples in the order of the dataset, or as they come")
    first, *later = run.heard().orders() or [[]]
    # One batch again and again has one order.
    if draws(split.loader) and later and len(set(first)) > 1 and all(each == first for each in later):
        yield Hit(
            f"{split.sampler} shuffles, and the first {len(first)} batches of all epochs have the same samples",
            split.place,
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
    may_be_wrong="streams, curricula and benchmarks of speed may read in one order on purpose",
    fix=Fix(
        "draw by seed and epoch: generator.manual_seed(self.seed + self.epoch), with set_epoch, which Lightning calls"
    ),
    listener=EpochOrders,
    detect=detect,
    faulty=shuffled(by_epoch=False),
    healthy=shuffled(by_epoch=True),
)
