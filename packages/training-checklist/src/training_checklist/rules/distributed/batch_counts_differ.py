from collections.abc import Iterator
from typing import Any

from training_checklist.evidence.ranks import Loader, Shares
from training_checklist.finding import FAILED, Fix, Place
from training_checklist.rule import CannotJudge, Hit, Rule


def judge(shares: Shares, limits: Any) -> Iterator[Hit]:
    sized = [
        loaders for loaders in zip(*shares.loaders, strict=False) if all(one.batches is not None for one in loaders)
    ]
    if not sized:
        raise CannotJudge("no training DataLoader knows its number of batches")
    for loaders in sized:
        counts = [loader.batches for loader in loaders]
        if len(set(counts)) == 1:
            continue
        fewest = counts.index(min(counts))
        told = ", ".join(f"rank {rank} {count}" for rank, count in enumerate(counts))
        note = f"{loaders[fewest].sampler} over {loaders[fewest].dataset}"
        place = Place(rank=str(fewest), loader="train_dataloader", note=note)
        yield Hit(f"the ranks have different numbers of batches: {told}", place)


RULE = Rule(
    id="distributed/batch-counts-differ",
    item="distributed",
    question="Does every rank have the same number of batches?",
    why="the rank with the fewest ends its epoch first, and the others wait for its gradients for ever",
    severity=FAILED,
    evidence=Shares,
    judge=judge,
    fix=Fix("give all ranks as many batches: a DistributedSampler, or drop_last=True"),
    faulty=lambda: Shares([[Loader(batches=8)], [Loader(batches=6)]]),
    healthy=lambda: Shares([[Loader(batches=8)], [Loader(batches=8)]]),
)
