from collections.abc import Iterator
from itertools import combinations
from typing import Any

from training_checklist.evidence.ranks import Loader, Shares
from training_checklist.finding import FAILED, Fix
from training_checklist.rule import CannotJudge, Hit, Rule
from training_checklist.rules.distributed.same_data import same_datasets


def judge(shares: Shares, limits: Any) -> Iterator[Hit]:
    pairs = [
        (one, two, loader, other)
        for one, two in combinations(range(shares.world_size), 2)
        for loader, other in same_datasets(shares, one, two)
        if loader.splits and other.splits and loader.drawn and loader.drawn != other.drawn
    ]
    if not pairs:
        raise CannotJudge("no epoch of a sampler that cuts up one dataset has been read")
    if any(len({*each.drawn}) < len(each.drawn) for _, _, *loaders in pairs for each in loaders):
        raise CannotJudge("samples are drawn with replacement: a rank has some of its own twice, too")
    for one, two, loader, other in pairs:
        common = set(loader.drawn) & set(other.drawn)
        if len(common) > shares.world_size:  # a DistributedSampler repeats fewer, to fill up
            what = f"{len(common)} of their {len(loader.drawn)} first samples are the same"
            place = shares.where(f"{one} and {two}")
            yield Hit(f"ranks {one} and {two} get shares of the data that overlap: {what}", place)
            return


def cut(*drawn: list[int]) -> Shares:
    """Return shares of one dataset, for examples."""
    return Shares([[Loader(splits=True, content="a", samples=64, drawn=each)] for each in drawn])


RULE = Rule(
    id="distributed/overlapping-shares",
    item="distributed",
    question="Does each sample go to one rank only (do the samplers of all ranks shuffle alike)?",
    why="some samples are seen twice in an epoch, and others never",
    severity=FAILED,
    evidence=Shares,
    judge=judge,
    fix=Fix("one seed for the sampler on all ranks, and set_epoch with one number: they cut up one order"),
    faulty=lambda: cut([0, 1, 2, 3], [3, 2, 1, 5]),
    healthy=lambda: cut([0, 1, 2, 3], [4, 5, 6, 7]),
)
