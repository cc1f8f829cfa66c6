from collections.abc import Iterator
from typing import Any

from training_checklist.evidence.network import Effects, WithoutEffect
from training_checklist.finding import FAILED, Fix
from training_checklist.rule import CannotJudge, Hit, Rule


def judge(effects: Effects, limits: Any) -> Iterator[Hit]:
    if not effects.reached:
        raise CannotJudge("no gradient other than 0 has reached any parameter, which is not one module's fault")
    if effects.zero_start:  # what lies before a layer of zeros gets its gradient from the second step on
        raise CannotJudge(f"{effects.zero_start[0]} starts from zero, and what lies before it gets its gradient later")
    for module in effects.without:
        if module.zero and module.own:
            number = f"the gradients of its {len(module.parameters)} parameters are exactly 0"
            yield Hit(f"{module.path} has no effect on the loss: {number}", module.place)


RULE = Rule(
    id="network/module-with-gradient-zero",
    item="trace",
    question="Is the gradient of every module other than 0?",
    why="it is multiplied by 0, or what follows it is dead (a ReLU at 0) or constant (softmax over one value)",
    severity=FAILED,
    evidence=Effects,
    judge=judge,
    fix=Fix(
        "look in the table above for abs-max 0, or for abs-min and abs-max that are the same", items=("gradients",)
    ),
    faulty=lambda: Effects(8, 6, [WithoutEffect("branch", ["branch.weight", "branch.bias"], zero=True)]),
    healthy=lambda: Effects(8, 8),
)
