from collections.abc import Iterator
from typing import Any

from training_checklist.engines.parameter_names import shown
from training_checklist.evidence.ranks import UnusedParameters
from training_checklist.finding import FAILED, REMARK, Fix
from training_checklist.rule import Hit, Rule


def judge(unused: UnusedParameters, limits: Any) -> Iterator[Hit]:
    if unused.names:
        yield Hit(
            f"{len(unused.names)} of {unused.total} parameters got no gradient: {shown(unused.names)}",
            unused.step.beside(rank=str(unused.rank), batch=unused.batch, parameter=shown(unused.names)),
            severity=None if unused.asked else REMARK,
            why=None
            if unused.asked
            else "this project runs in one process, where that is allowed; in several the strategy "
            "waits for the gradient of every parameter",
        )


RULE = Rule(
    id="distributed/unused-parameters",
    item="distributed",
    question="Does every parameter get a gradient in every step, as DDP demands?",
    why="the strategy waits for the gradient of every parameter: the next step raises 'Expected to have finished "
    "reduction', or another rank waits for this one",
    severity=FAILED,
    evidence=UnusedParameters,
    judge=judge,
    fix=Fix(
        "or use them in the loss, or freeze them with requires_grad_(False)",
        overrides=("trainer.strategy=ddp_find_unused_parameters_true",),
    ),
    faulty=lambda: UnusedParameters(0, ["extra.weight"], 8),
    healthy=lambda: UnusedParameters(0, [], 8),
)
