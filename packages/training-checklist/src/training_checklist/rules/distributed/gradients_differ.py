from collections.abc import Iterator
from typing import Any

from training_checklist.engines.parameter_names import shown
from training_checklist.evidence.ranks import Agreement
from training_checklist.finding import FAILED, Fix
from training_checklist.rule import CannotJudge, Hit, Rule, Threshold


def judge(agreement: Agreement, limits: Any) -> Iterator[Hit]:
    if agreement.kind != "gradients":
        return
    if agreement.obstacle and not agreement.distances:
        raise CannotJudge(agreement.obstacle)
    names = agreement.apart(limits.gradient_roundings)
    if names:
        yield Hit(
            f"gradients of {len(names)} of {agreement.total} parameters differ between ranks before the optimizer's "
            f"step: {shown(names)}; in the units of their rounding by {agreement.distances[names[0]]:.3g}",
            agreement.hooks.beside(
                rank=f"0 to {agreement.world_size - 1}",
                parameter=shown(names),
                note=f"changed before {agreement.stage}",
            ),
        )


RULE = Rule(
    id="distributed/gradients-differ",
    item="distributed",
    question="Are the gradients the same on all ranks when the optimizer steps?",
    why="each rank takes a step of its own: DDP has not averaged these gradients, or they were changed after that",
    severity=FAILED,
    evidence=Agreement,
    judge=judge,
    fix=Fix("call the LightningModule, not the torch module inside a no_sync(); do not write to .grad on one rank"),
    faulty=lambda: Agreement("gradients", 6, {"head.weight": 1e6}),
    healthy=lambda: Agreement("gradients", 6, {"head.weight": 1.0}),
    thresholds={
        "gradient_roundings": Threshold(
            64,
            "in units of the dtype's rounding: most all-reduces hand every rank the same bits; where each rank adds up "
            "n terms in an order of its own, n - 1 roundings bound the difference; two batches' gradients are as far "
            "apart as they are large: 8e6 units in float32, 128 in bfloat16",
        )
    },
)
