from collections.abc import Iterator
from typing import Any

from training_checklist.evidence.network import AmongOthers
from training_checklist.finding import WARNING, Fix
from training_checklist.rule import CannotJudge, Hit, Rule


def judge(seen: AmongOthers, limits: Any) -> Iterator[Hit]:
    if not seen.apart:
        return
    if seen.over_time:
        raise CannotJudge(f"{', '.join(seen.over_time)} may read padding on purpose")
    first = f"; the first operation that tells them apart is {seen.operation}" if seen.operation else ""
    yield Hit(
        f"{seen.apart} of {seen.samples} samples are answered otherwise among others than alone, in eval "
        f"mode{first}; the batch is made in {seen.collated}",
        seen.place,
    )


RULE = Rule(
    id="network/answers-depend-on-others",
    item="trace",
    question="Is a sample answered alike, alone and among others?",
    why="something of the other samples of its batch takes part in its answer: nodes of another graph, padding to the "
    "length of the longest one, a sum over all of the batch",
    severity=WARNING,
    evidence=AmongOthers,
    judge=judge,
    fix=Fix("count indices of nodes on from sample to sample in the collate function, and add up within samples only"),
    faulty=lambda: AmongOthers(8, 7, operation="index_select"),
    healthy=lambda: AmongOthers(8, 0),
)
