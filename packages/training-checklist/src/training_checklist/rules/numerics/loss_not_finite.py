import math
from collections.abc import Iterator
from typing import Any

from training_checklist.evidence.numerics import BackwardPasses, BadOperation
from training_checklist.finding import FAILED, NOWHERE, Fix, Place
from training_checklist.rule import Hit, Rule


def judge(passes: BackwardPasses, limits: Any) -> Iterator[Hit]:
    if math.isfinite(passes.loss):
        return
    forward = passes.forward
    made = "what makes it was not seen" if forward is None else f"{forward.name} makes the first {forward.kind}"
    place = NOWHERE if forward is None else forward.place
    yield Hit(f"the loss is {passes.loss} before backward has begun: {made}", place.beside(batch=passes.steps))


RULE = Rule(
    id="numerics/loss-not-finite",
    item="anomaly",
    question="Is the loss finite before backward begins?",
    why="the forward pass made it, and every gradient is NaN or Inf after it",
    severity=FAILED,
    evidence=BackwardPasses,
    judge=judge,
    fix=Fix("it shows the ranges up to there, and tells the data, the weights and 16 bits apart", items=("overflow",)),
    faulty=lambda: BackwardPasses(0, loss=math.nan, forward=BadOperation("NaN", "div", Place(module="net"))),
    healthy=lambda: BackwardPasses(10, loss=2.3),
    symptom=True,
)
