from collections.abc import Iterator
from typing import Any

from training_checklist.evidence.repetition import WorkerShares
from training_checklist.finding import FAILED, Fix
from training_checklist.rule import CannotJudge, Hit, Rule, Threshold

# Workers that draw at random, with replacement, pass for copies once in 2,000 times at most (simulated for data of 2 to
# 600 samples); with 16 samples it is once in 200.
LEAST = 32


def judge(shares: WorkerShares, limits: Any) -> Iterator[Hit]:
    demand_samples(shares)
    readings = (shares.first, shares.second)
    common = min(part_of(others, own) for own, others in readings)
    if common < limits.common_samples:
        again = part_of(shares.second[0], shares.first[0])
        if again < limits.common_samples:
            raise CannotJudge(
                f"a worker itself reads only {again:.0%} of its samples again in another epoch: they are drawn from "
                "more than was read here, or come with random augmentation"
            )
        return
    repeated = max(1 - len(set(stream)) / len(stream) for reading in readings for stream in reading)
    # Of n samples, k that are drawn at random, with replacement, have 1 - exp(-k / n) in common with k others, and
    # repeat at least half as many themselves. Half of that leaves room for chance.
    if repeated >= common / 4:
        raise CannotJudge(f"samples repeat within one worker, too: {repeated:.0%} of what it reads")
    yield Hit(
        f"two workers read the same samples: {common:.0%} of the {len(shares.first[1])} that worker 1 has read, worker "
        f"0 has read too, and the loader has {shares.workers} workers",
        shares.place,
    )


def demand_samples(shares: WorkerShares) -> None:
    if shares.obstacle:
        raise CannotJudge(shares.obstacle)
    fewest = min(len(stream) for stream in (*shares.first, *shares.second))
    if fewest < LEAST:
        raise CannotJudge(f"a worker has read {fewest} samples; fewer than {LEAST} may be the same by chance")


def part_of(samples: list[str], known: list[str]) -> float:
    """Return which part of some samples is among others."""
    others = set(known)
    return sum(sample in others for sample in samples) / len(samples)


def numbered(*ranges: range) -> tuple[list[str], list[str]]:
    one, two = ([str(index) for index in each] for each in ranges)
    return one, two


RULE = Rule(
    id="data/workers-read-the-same",
    item="reproducibility",
    question="Does each worker of a loader read a share of an iterable dataset of its own?",
    why="each has a copy of the dataset and goes through all of it: samples come once for every worker, and where the "
    "epoch has an end before that, others never come",
    severity=FAILED,
    evidence=WorkerShares,
    judge=judge,
    fix=Fix(
        "in __iter__: info = torch.utils.data.get_worker_info(), and where it is not None itertools.islice(samples, "
        "info.id, None, info.num_workers); a random order must be the same in all workers before it is cut up: "
        "torch.Generator().manual_seed(info.seed - info.id)"
    ),
    faulty=lambda: WorkerShares(numbered(range(64), range(64)), numbered(range(64), range(64)), 2),
    healthy=lambda: WorkerShares(numbered(range(32), range(32, 64)), numbered(range(32), range(32, 64)), 2),
    thresholds={
        "common_samples": Threshold(
            0.25,
            "of what worker 1 reads: workers with shares of their own have none in common, two that shuffle apart and "
            "then take half each have half, and two without shares all; between lie data that repeat themselves",
        )
    },
)
