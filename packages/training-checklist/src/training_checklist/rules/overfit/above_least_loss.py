from collections.abc import Iterator
from typing import Any

from training_checklist.evidence.one_batch import OneBatch
from training_checklist.finding import WARNING, Fix
from training_checklist.rule import Hit, Rule


def judge(batch: OneBatch, limits: Any) -> Iterator[Hit]:
    if batch.is_right and batch.course == "stalled" and not any(map(batch.explains, batch.trials or [])):
        yield Hit(f"every answer is right, and the loss stalled above {batch.goal:.3g}: {batch.standing}")


RULE = Rule(
    id="overfit/above-least-loss",
    item="overfit",
    question="Does the loss on a memorised batch come down to the least value that it can have?",
    why="the loss is this criterion and nothing else, and the network cannot be as sure as it wants: logits may be "
    "bounded (a softmax, a tanh, a cosine without a temperature)",
    severity=WARNING,
    evidence=OneBatch,
    judge=judge,
    fix=Fix(
        "the item looks at what the criterion is given; if it is meant, set checks.overfit.max_loss", items=("trace",)
    ),
    faulty=lambda: OneBatch([2.3, 1.46, 1.46], accuracy=1.0, goal=0.05),
    healthy=lambda: OneBatch([2.3, 0.2, 0.1], accuracy=1.0, goal=0.05, still_falling=True),
    symptom=True,
)
