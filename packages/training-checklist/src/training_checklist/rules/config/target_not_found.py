from collections.abc import Iterator
from typing import Any

from training_checklist.evidence.config_values import Target
from training_checklist.finding import FAILED, Fix
from training_checklist.rule import Hit, Rule


def judge(target: Target, limits: Any) -> Iterator[Hit]:
    if target.problem:
        yield Hit(f"{target.key}={target.target} {target.problem}", target.place)


RULE = Rule(
    id="config/target-not-found",
    item="config",
    question="Can every _target_ be imported and called?",
    why="nothing can be built from it",
    severity=FAILED,
    evidence=Target,
    judge=judge,
    fix=Fix("correct the name"),
    faulty=lambda: Target("net._target_", "torch.nn.Linaer", "cannot be imported: torch.nn has no Linaer"),
    healthy=lambda: Target("net._target_", "torch.nn.Linear"),
)
