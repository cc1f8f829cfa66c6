import os
from itertools import combinations

import torch
from torch.utils.data import DataLoader

from training_checklist.instruments import Example, Ranks, Shares
from training_checklist.probe import CannotJudge, Fix, Hit, Hits, Limits, Probe, Threshold

OFF = Fix(
    "or a DistributedSampler of your own in train_dataloader", overrides=("trainer.use_distributed_sampler=true",)
)
ITERABLE = Fix("take every world_size-th sample from the rank-th on in __iter__, and split that among the workers")
DRAWN = Fix("seed + rank for what they are drawn by; in loader workers, seed_everything(seed, workers=True) gives that")


def detect(ranks: Ranks, limits: Limits) -> Hits:
    shares = ranks.shares
    if not shares.batches:
        raise CannotJudge("the ranks have not read an epoch")
    for one, two in combinations(range(shares.world_size), 2):
        what = in_common(shares, one, two, limits)
        if what:
            iterable = shares.loaders[one] and shares.loaders[one][0].samples is None
            yield Hit(
                f"ranks {one} and {two} get {what}",
                shares.where(f"{one} and {two}"),
                fix=DRAWN
                if drawn_alike(shares, one, two)
                else ITERABLE
                if iterable
                else OFF
                if shares.sampler_off
                else None,
            )
            return


def drawn_alike(shares: Shares, one: int, two: int) -> bool:
    """Whether two ranks read other positions of one dataset, which gives samples that it draws."""
    return any(pair == [one, two] and loader.drawn != other.drawn for *pair, loader, other in shares.of_one_dataset())


def in_common(shares: Shares, one: int, two: int, limits: Limits) -> str:
    """Return what two ranks have in common that shares of their own would not have, or ""."""
    batches, others = shares.batches[one], shares.batches[two]
    same = same_batches(batches, others)
    if same and same >= limits.same_batches * len(batches):
        return f"the same {same} of their {len(batches)} first batches"
    for *pair, loader, other in shares.of_one_dataset():
        alike = loader.drawn == other.drawn and loader.first == other.first
        if pair == [one, two] and alike and len(set(loader.drawn)) > 1:
            return f"the same {len(loader.drawn)} samples in the same order, augmented apart"
        if pair == [one, two] and loader.whole and other.whole:
            return f"all {loader.samples} samples in every epoch, in orders of their own"
    return ""


def same_batches(one: list[str], other: list[str]) -> int:
    """Return how many batches were the same on two ranks at the same position; 0 where a rank's own are alike too."""
    if len(set(one)) <= len(one) // 2:
        return 0
    return sum(mine == theirs for mine, theirs in zip(one, other, strict=False))


def reading(same: int) -> Example:
    """Make one whose ranks have so many of ten batches in common."""

    def loader() -> DataLoader:
        own = 1000 * int(os.environ["RANK"])
        numbers = [index + own * (index >= 4 * same) for index in range(40)]
        return DataLoader([(torch.full((8,), 0.001 * number), torch.tensor(number % 4)) for number in numbers], 4)

    return Example(loader=loader, trainer={"use_distributed_sampler": False})


PROBE = Probe(
    question="Does each rank read a different part of the data?",
    why="each process does the work of one: no speed-up, and an epoch is as many epochs as there are ranks",
    fix=Fix("DistributedSampler(dataset, num_replicas=trainer.world_size, rank=trainer.global_rank) on every rank"),
    detect=detect,
    thresholds={
        "same_batches": Threshold(
            0.5,
            "share of the first epoch's batches: ranks with shares of their own have none in common, and ranks without "
            "all of them; in between lie data that repeat themselves, such as token blocks of one text",
            factor=1.5,
            faulty=reading(6),
            healthy=reading(4),
        )
    },
    faulty=reading(10),
    healthy=reading(0),
)
