from collections.abc import Iterator
from typing import Any

from training_checklist.evidence.learning import DECAY, Course, RangeTest
from training_checklist.finding import FAILED, Fix, Place
from training_checklist.rule import Hit, Rule


def judge(test: RangeTest, limits: Any) -> Iterator[Hit]:
    without = test.better(DECAY)
    if without is not None:
        yield Hit(
            f"the loss does not fall: {test.asked}; with {DECAY}=0: {without}",
            Place(key=DECAY, value=f"{without.value:.3g}"),
        )


RULE = Rule(
    id="learning/weight-decay",
    item="learning",
    question="Does the loss fall in spite of weight decay?",
    why="the decay shrinks the weights faster than they learn",
    severity=FAILED,
    evidence=RangeTest,
    judge=judge,
    fix=Fix(overrides=(f"{DECAY}=0",)),
    faulty=lambda: RangeTest(Course(2.3, 2.3, 0.0, 60), [Course(2.3, 1.2, 0.48, 60, DECAY, value=300.0, given=0.0)]),
    healthy=lambda: RangeTest(Course(2.3, 2.2, 0.04, 60), [Course(2.3, 2.1, 0.09, 60, DECAY, value=300.0, given=0.0)]),
)
