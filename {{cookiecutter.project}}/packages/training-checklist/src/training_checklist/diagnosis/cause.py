"""What may have led to an exception. Plain data, and how the kinds of exceptions are told apart."""

import re
from collections.abc import Callable
from dataclasses import dataclass

from training_checklist.diagnosis.place import Place


@dataclass(frozen=True)
class Cause:
    """Args:
    why: the likely cause, with its numbers.
    fix: the next step.
    where: a better place than the traceback's, as a config key, or "".
    """

    why: str
    fix: str
    where: str = ""


# Looked for in "RuntimeError: its message"; the function may find on a closer look that it is something else.
Rule = tuple[str, Callable[[Place, re.Match], Cause | None]]


def find_cause(error: BaseException, place: Place, rules: list[Rule]) -> Cause | None:
    """Return what the first rule that fits says."""
    text = f"{type(error).__name__}: {error}"
    for pattern, explain in rules:
        match = re.search(pattern, text, re.DOTALL)
        cause = explain(place, match) if match else None
        if cause is not None:
            return cause
    return None
