from collections.abc import Iterator
from typing import Any

from training_checklist.evidence.stages import LikeHook
from training_checklist.finding import WARNING, Fix
from training_checklist.rule import Hit, Rule


def judge(hook: LikeHook, limits: Any) -> Iterator[Hit]:
    if hook.called:
        return
    why_not = f"no {hook.kind} has that hook" if hook.elsewhere else "Lightning has no such hook"
    meant = f"; did you mean {' or '.join(hook.near)}?" if hook.near else ""
    yield Hit(
        f"{hook.owner}.{hook.name} is never called: {why_not}, and no code of the project names it{meant}", hook.place
    )


RULE = Rule(
    id="run/hook-never-called",
    item="fast_dev_run",
    question="Does Lightning, or the project, call each method that is named like a hook?",
    why="hooks are looked up by name, and nothing is said of a name that Lightning does not know",
    severity=WARNING,
    evidence=LikeHook,
    judge=judge,
    fix=Fix("give it the name that Lightning calls, or remove it"),
    faulty=lambda: LikeHook("on_epoch_start", "Unfreeze", "Callback", called=False, near=["on_train_epoch_start"]),
    healthy=lambda: LikeHook("on_epoch_start", "Unfreeze", "Callback", called=True, near=["on_train_epoch_start"]),
)
