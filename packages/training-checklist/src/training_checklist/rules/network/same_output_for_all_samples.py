from collections.abc import Iterator
from typing import Any

from training_checklist.evidence.network import SampleOutputs
from training_checklist.finding import FAILED, Fix
from training_checklist.rule import Hit, Rule


def judge(outputs: SampleOutputs, limits: Any) -> Iterator[Hit]:
    if outputs.same:
        what = f"all {outputs.samples} samples have the same output"
        yield Hit(what, outputs.place, fix=Fix(outputs.advice) if outputs.advice else None)


RULE = Rule(
    id="network/same-output-for-all-samples",
    item="trace",
    question="Do samples differ in what the criterion is given?",
    why="what all samples share cannot tell them apart",
    severity=FAILED,
    evidence=SampleOutputs,
    judge=judge,
    fix=Fix("look at abs-min and abs-max in the table above"),
    faulty=lambda: SampleOutputs(16, True),
    healthy=lambda: SampleOutputs(16, False),
)
