from collections.abc import Iterator
from typing import Any

from training_checklist.evidence.config_values import Target
from training_checklist.finding import FAILED, Fix
from training_checklist.rule import Hit, Rule


def judge(target: Target, limits: Any) -> Iterator[Hit]:
    if not target.lacks:
        return
    owner = target.key.removesuffix("_target_").removesuffix(".")
    given = tuple(f"+{owner}.{name}=VALUE" for name in target.lacks)
    fix = Fix(overrides=given)
    if target.supplied:
        fix = Fix("whoever builds it supplies them", overrides=(f"+{owner}._partial_=true",))
    yield Hit(f"{owner} lacks {', '.join(target.lacks)} of {target.target}", target.place, fix=fix)


RULE = Rule(
    id="config/missing-argument",
    item="config",
    question="Does every _target_ get all the arguments that its signature requires?",
    why="calling it raises a TypeError",
    severity=FAILED,
    evidence=Target,
    judge=judge,
    fix=Fix("give them in the config, or in the code"),
    faulty=lambda: Target("net._target_", "torch.nn.Linear", lacks=["out_features"]),
    healthy=lambda: Target("net._target_", "torch.nn.Linear"),
)
