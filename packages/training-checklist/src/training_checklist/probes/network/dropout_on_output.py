from collections.abc import Iterator
from typing import Any

from torch.nn import functional

from training_checklist.finding import WARNING, Fix
from training_checklist.lab.criterion_inputs import criterion_inputs
from training_checklist.lab.step import Step
from training_checklist.probe import Probe
from training_checklist.rule import Hit


def detect(step: Step, limits: Any) -> Iterator[Hit]:
    for given in criterion_inputs(step):
        if given.dropped is not None:
            what = f"{given.name} gets what dropout returns: {given.zeros:.0%} of the answers are exactly 0"
            yield Hit(what, given.dropped)


PROBE = Probe(
    id="network/dropout-on-output",
    item="trace",
    question="Does the criterion get the outputs of the last layer without a dropout in between?",
    why="an answer that was dropped says 0 whatever the input, and has no gradient; those that stay are scaled up",
    severity=WARNING,
    fix=Fix("put the dropout before the last layer"),
    detect=detect,
    faulty=lambda answers, labels: functional.cross_entropy(functional.dropout(answers, 0.3), labels),
    healthy=lambda answers, labels: functional.cross_entropy(functional.dropout(answers, 0.3, training=False), labels),
)
