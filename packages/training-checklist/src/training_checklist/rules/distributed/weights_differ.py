from collections.abc import Iterator
from typing import Any

from training_checklist.engines.parameter_names import shown
from training_checklist.evidence.ranks import Agreement
from training_checklist.finding import FAILED, Fix
from training_checklist.rule import CannotJudge, Hit, Rule, Threshold


def judge(agreement: Agreement, limits: Any) -> Iterator[Hit]:
    if agreement.kind != "parameters":
        return
    if agreement.obstacle and not agreement.distances:
        raise CannotJudge(agreement.obstacle)
    names = agreement.apart(limits.weight_roundings)
    if not names:
        return
    before = "; their gradients were the same before the optimizer's step" if agreement.gradients_equal else ""
    yield Hit(
        f"{len(names)} of {agreement.total} parameters differ between ranks: {shown(names)}; in the units of their "
        f"rounding by {agreement.distances[names[0]]:.3g}{before}",
        agreement.hooks.beside(
            rank=f"0 to {agreement.world_size - 1}",
            parameter=shown(names),
            note="; ".join(part for part in (agreement.hooks.note, f"changed before {agreement.stage}") if part),
        ),
    )


RULE = Rule(
    id="distributed/weights-differ",
    item="distributed",
    question="Are the weights the same on all ranks after every step?",
    why="each rank trains another model from here on: DDP averages gradients, and no weights",
    severity=FAILED,
    evidence=Agreement,
    judge=judge,
    fix=Fix(
        "change weights in the same way on all ranks, without their rank or a random number, or send them: "
        "self.trainer.strategy.broadcast(...), torch.distributed.broadcast(parameter.data, src=0)"
    ),
    faulty=lambda: Agreement("parameters", 6, {"head.bias": 1e6}, gradients_equal=True),
    healthy=lambda: Agreement("parameters", 6, {"head.bias": 1.0}, gradients_equal=True),
    thresholds={
        "weight_roundings": Threshold(
            8,
            "in units of the dtype's rounding: weights and gradients were the same to the last bit, and an optimizer "
            "does some five elementwise operations with them, each of which rounds by half a unit; only a norm to clip "
            "by, summed over another number of threads, can differ before",
        )
    },
)
