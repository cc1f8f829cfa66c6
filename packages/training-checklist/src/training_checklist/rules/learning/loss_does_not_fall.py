from collections.abc import Iterator
from typing import Any

from training_checklist.evidence.learning import RATE, Course, NeverFell, RangeTest
from training_checklist.finding import WARNING, Fix, Place
from training_checklist.rule import Hit, Rule


def judge(fell: NeverFell, limits: Any) -> Iterator[Hit]:
    asked = fell.test.asked
    # A small rate in a long training is no fault: what has begun to fall may go on at its pace.
    if max(asked.fall, 0.0) / asked.steps * fell.whole_run >= fell.test.min_fall:
        return
    tried = [f"{each.change}={'null' if each.given is None else f'{each.given:.3g}'}" for each in fell.test.tried]
    others = f"nor with {', '.join(tried)}" if tried else "no other setting was tried"
    ended = "; the time for trying was over" if fell.out_of_time else ""
    yield Hit(
        f"the loss does not fall: {asked} on a few batches, {others}{ended}",
        Place(function="training_step", note="on copies of the network, without schedules and hooks"),
    )


RULE = Rule(
    id="learning/loss-does-not-fall",
    item="learning",
    question="Does the loss of a few batches fall when a copy of the network is trained on them?",
    why="a step along its gradient lowers a loss, unless the step is far too long or too short",
    severity=WARNING,
    evidence=NeverFell,
    judge=judge,
    fix=Fix("where no loss is to fall, as with rewards, silence this rule", items=("overfit", "gradients")),
    faulty=lambda: NeverFell(RangeTest(Course(2.3, 2.31, -0.004, 60)), whole_run=1000, out_of_time=True),
    healthy=lambda: NeverFell(
        RangeTest(Course(2.3, 2.29, 0.004, 60), [Course(2.3, 2.31, -0.004, 20, RATE, value=1e-5, given=10.0)]),
        whole_run=1000,
    ),
    symptom=True,
)
