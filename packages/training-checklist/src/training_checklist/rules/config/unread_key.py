from collections.abc import Iterator
from typing import Any

from training_checklist.evidence.config_values import UnreadKey
from training_checklist.finding import FAILED, WARNING, Fix
from training_checklist.rule import Hit, Rule


def judge(unread: UnreadKey, limits: Any) -> Iterator[Hit]:
    if not unread.key:
        return
    sure = unread.added or unread.near  # of a file that somebody wrote for another project it may be a leftover
    hint = f"; did you mean {unread.near}?" if unread.near else ""
    fix = (
        Fix(f"leave +{unread.key} out, or read it in the code") if unread.added else Fix(overrides=(f"~{unread.key}",))
    )
    what = f"nothing reads {unread.key}: no code names it, and no interpolation leads to it{hint}"
    yield Hit(what, unread.place, fix=fix, severity=FAILED if sure else WARNING)


RULE = Rule(
    id="config/unread-key",
    item="config",
    question="Is every key of the config read by the code or by an interpolation?",
    why="whatever it is set to changes nothing",
    severity=WARNING,
    evidence=UnreadKey,
    judge=judge,
    fix=Fix("take it out, or correct its name"),
    faulty=lambda: UnreadKey("trainr", near="trainer"),
    healthy=lambda: UnreadKey(""),
)
