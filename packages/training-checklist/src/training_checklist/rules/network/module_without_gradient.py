from collections.abc import Iterator
from typing import Any

from training_checklist.evidence.network import Effects, WithoutEffect
from training_checklist.finding import FAILED, WARNING, Fix
from training_checklist.rule import CannotJudge, Hit, Rule


def judge(effects: Effects, limits: Any) -> Iterator[Hit]:
    if not effects.reached:
        raise CannotJudge("no gradient has reached any parameter, which is not one module's fault")
    for module in effects.without:
        if module.zero or not module.own or (module.copied and not module.with_grad):
            continue
        if not module.called:
            why = "it is never called in training_step, or only its weights are used"
        elif not module.with_grad:
            why = "it is called under torch.no_grad()"
        else:
            why = "it is called, but what it returns never reaches the loss: unused, or cut by .detach() or .data"
        deliberate = module.chosen or (module.called and not module.with_grad) or not effects.automatic
        number = f"{len(module.parameters)} parameters that the optimizer holds get no gradient"
        what = f"{module.path} has no effect on the loss: {number}"
        yield Hit(what, module.place, why, severity=WARNING if deliberate else None)


RULE = Rule(
    id="network/module-without-gradient",
    item="trace",
    question="Does the loss depend on every module that is trained?",
    why="what it returns never reaches the loss",
    severity=FAILED,
    evidence=Effects,
    judge=judge,
    fix=Fix("use it, remove it, or freeze it with requires_grad_(False)", items=("gradients",)),
    faulty=lambda: Effects(8, 4, [WithoutEffect("spare", ["spare.weight", "spare.bias"], zero=False, called=False)]),
    healthy=lambda: Effects(8, 4, [WithoutEffect("bert.pooler", ["bert.pooler.weight"], zero=False, own=False)]),
)
