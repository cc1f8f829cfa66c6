import math
from collections.abc import Iterator
from typing import Any

from training_checklist.evidence.values import Losses
from training_checklist.finding import FAILED, Fix
from training_checklist.rule import Hit, Rule


def judge(losses: Losses, limits: Any) -> Iterator[Hit]:
    data = "the data have findings of their own" if losses.excused else "the data show no reason"
    number = len(losses.values)
    wrong = [index for index, loss in enumerate(losses.values) if not math.isfinite(loss)]
    if wrong:
        yield Hit(
            f"the loss is {losses.values[wrong[0]]} in {len(wrong)} of {number} batches",
            losses.place.beside(batch=wrong[0]),
            f"after that step every weight is NaN; {data}",
            Fix(items=("anomaly",)),
        )
    elif number and not any(losses.values):
        yield Hit(f"the loss is exactly 0 in all {number} batches", losses.place, f"nothing is learned; {data}")


RULE = Rule(
    id="data/loss-without-meaning",
    item="limit_batches",
    question="Are the losses of the first batches numbers to learn from?",
    why="labels may be constant, or outputs and labels do not reach the criterion",
    severity=FAILED,
    evidence=Losses,
    judge=judge,
    fix=Fix(items=("trace",)),
    faulty=lambda: Losses([2.3, math.nan], excused=False),
    healthy=lambda: Losses([2.3, 0.0], excused=False),
    symptom=True,
)
