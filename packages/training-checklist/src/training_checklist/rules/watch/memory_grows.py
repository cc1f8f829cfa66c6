from collections.abc import Iterator
from itertools import pairwise
from statistics import mean
from typing import Any

from training_checklist.engines.sizes import in_bytes
from training_checklist.evidence.whole_training import MemoryUse
from training_checklist.finding import WARNING, Fix
from training_checklist.rule import CannotJudge, Hit, Rule, Threshold


def judge(memory: MemoryUse, limits: Any) -> Iterator[Hit]:
    used = memory.used
    if not used:
        raise CannotJudge(f"{memory.kind}: not known, or known of too few steps")
    growth = [later - earlier for earlier, later in pairwise(used)]
    half = len(growth) // 2
    is_flattening = mean(growth[-half:]) < mean(growth[:half]) / 2
    if min(growth) <= 0 or is_flattening or used[-1] - used[0] < limits.grown_mb * 2**20:
        return
    steps = memory.steps[-1] - memory.steps[0]
    each = (used[-1] - used[0]) / max(steps, 1)
    yield Hit(
        f"{memory.kind} grows in each of {len(growth) + 1} parts of the training and never levels off: "
        f"{in_bytes(used[0])} at step {memory.steps[0]}, {in_bytes(used[-1])} at step {memory.steps[-1]}, "
        f"{in_bytes(each)} a step",
        memory.place,
    )


RULE = Rule(
    id="watch/memory-grows",
    item="watch",
    question="Does memory level off while it trains?",
    why="a training that is long enough ends with 'out of memory', or is killed",
    severity=WARNING,
    evidence=MemoryUse,
    judge=judge,
    fix=Fix("it names what keeps graphs, outputs or samples", items=("memory",)),
    faulty=lambda: MemoryUse("memory of this process", [2**30 + part * 2**25 for part in range(8)], list(range(8))),
    healthy=lambda: MemoryUse(
        "memory of this process", [2**30 + int(2**28 * (1 - 0.5**part)) for part in range(8)], list(range(8))
    ),
    thresholds={
        "grown_mb": Threshold(
            16,
            "MiB from the first eighth of the training to its end: twelve healthy trainings of 180 to 1,250 steps "
            "grew by at most 1.6, the records of this item among them",
        )
    },
)
