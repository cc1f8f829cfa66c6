from collections.abc import Iterator
from typing import Any

from training_checklist.evidence.step_times import Hook
from training_checklist.finding import WARNING, Fix
from training_checklist.rule import Hit, Rule, Threshold


def judge(hook: Hook, limits: Any) -> Iterator[Hit]:
    if hook.share > limits.max_beside:
        yield Hit(
            f"{hook.place.function} takes {hook.share:.0%} of the time between two batches; the training step, "
            f"backward and the optimizer share the rest",
            hook.place,
        )


RULE = Rule(
    id="profile/hook-outweighs-step",
    item="profile",
    question="Do hooks take less time than the training step?",
    why="figures, tables and checks of all weights after each batch cost more than the training that they look at",
    severity=WARNING,
    evidence=Hook,
    judge=judge,
    fix=Fix("do it every so many steps: if trainer.global_step % trainer.log_every_n_steps == 0"),
    faulty=lambda: Hook(0.8),
    healthy=lambda: Hook(0.1),
    thresholds={"max_beside": Threshold(0.5, "share of the time: more than all of the training together")},
)
