from collections.abc import Iterator
from typing import Any

from training_checklist.evidence.learning import CLIPPING, Course, RangeTest
from training_checklist.finding import FAILED, Fix, Place
from training_checklist.rule import Hit, Rule


def judge(test: RangeTest, limits: Any) -> Iterator[Hit]:
    without = test.better(CLIPPING)
    if without is not None:
        yield Hit(
            f"the loss does not fall: {test.asked}; with {CLIPPING}=null: {without}; the first gradient has a norm of "
            f"{test.grad_norm:.2g}",
            Place(key=CLIPPING, value=f"{without.value:.3g}"),
        )


RULE = Rule(
    id="learning/gradient-clipping",
    item="learning",
    question="Does the loss fall in spite of gradient clipping?",
    why="nothing else differs between the two trainings",
    severity=FAILED,
    evidence=RangeTest,
    judge=judge,
    fix=Fix(overrides=(f"{CLIPPING}=null",)),
    faulty=lambda: RangeTest(Course(2.3, 2.3, 0.0, 60), [Course(2.3, 1.2, 0.48, 60, CLIPPING, value=1e-6, given=None)]),
    healthy=lambda: RangeTest(
        Course(2.3, 2.2, 0.04, 60), [Course(2.3, 2.1, 0.09, 60, CLIPPING, value=1e-6, given=None)]
    ),
)
