from collections.abc import Iterator
from typing import Any

from training_checklist.evidence.learning import RATE, Course, RangeTest
from training_checklist.finding import FAILED, Fix, Place
from training_checklist.rule import Hit, Rule, Threshold


def judge(test: RangeTest, limits: Any) -> Iterator[Hit]:
    other = test.better(RATE)
    if other is None or 1 < round(other.given / other.value) < limits.max_too_low:
        return
    too = "low" if other.given > other.value else "high"
    yield Hit(
        f"the loss does not fall: {test.asked}; with {RATE}={other.given:.3g}: {other}",
        Place(key=RATE, value=f"{other.value:.3g}"),
        f"the learning rate is too {too}: nothing else differs between the two trainings",
        Fix(overrides=(f"{RATE}={other.given:.3g}",)),
    )


RULE = Rule(
    id="learning/learning-rate",
    item="learning",
    question="Does the loss fall with the configured learning rate?",
    why="another rate makes it fall",
    severity=FAILED,
    evidence=RangeTest,
    judge=judge,
    fix=Fix("set the learning rate to what makes the loss fall"),
    faulty=lambda: RangeTest(Course(2.3, 90.0, -38.0, 60), [Course(2.3, 0.9, 0.6, 20, RATE, value=10.0, given=0.01)]),
    healthy=lambda: RangeTest(Course(2.3, 2.29, 0.004, 60), [Course(2.3, 2.1, 0.09, 20, RATE, value=1e-5, given=1e-4)]),
    thresholds={
        "max_too_low": Threshold(
            1000,
            "times the rate is the least that makes the loss fall; rates that are in use span three powers of ten, "
            "from 1e-5 in fine-tuning to 1e-2",
        )
    },
)
