from collections.abc import Iterator
from typing import Any

from training_checklist.engines.parameter_names import shown
from training_checklist.evidence.gradients import Missing, MissingGradients
from training_checklist.finding import FAILED, WARNING, Fix
from training_checklist.rule import Hit, Rule


def judge(missing: MissingGradients, limits: Any) -> Iterator[Hit]:
    if sum(len(group.names) for group in missing.groups) == missing.total:
        return
    for group in missing.groups:
        if group.how == "unused":
            continue
        cause = (
            f"{group.operation} runs under torch.no_grad()"
            if group.how == "no_grad"
            else f"{group.operation} detaches it"
        )
        between = f", {group.between}" if group.between else ""
        yield Hit(
            f"{len(group.names)} of {missing.total} parameters get no gradient: {group.path}; {cause}{between}",
            group.place.beside(parameter=shown(group.names)),
            fix=Fix(f"take the operation out; if it is meant, freeze {group.path} with requires_grad_(False)"),
            severity=WARNING if group.meant else None,
        )


RULE = Rule(
    id="gradients/cut-off",
    item="gradients",
    question="Does the graph lead from the loss to every parameter, with nothing detached on the way?",
    why="they stay as they are, whatever the loss does",
    severity=FAILED,
    evidence=MissingGradients,
    judge=judge,
    fix=Fix("take the operation out"),
    faulty=lambda: MissingGradients(
        4, [Missing("net.a", ["net.a.weight"], "cut", "detach", between="between net.a and net.b")]
    ),
    healthy=lambda: MissingGradients(4),
)
