"""What may have led to an exception. Plain data, and how the kinds of exceptions are told apart."""

import re
from collections.abc import Callable
from dataclasses import dataclass

from training_checklist.diagnosis.crash import Crash
from training_checklist.finding import Fix, Place


@dataclass(frozen=True)
class Cause:
    """Args:
    why: the likely cause, with its numbers.
    fix: the next step; a text is what to do in words.
    place: a better one than the traceback's, as a config key, or None.
    """

    why: str
    fix: Fix | str
    place: Place | None = None


# Looked for in "RuntimeError: its message"; the function may find on a closer look that it is something else. Its name
# is the finding's: matrix_product gives crash/matrix-product.
Pattern = tuple[str, Callable[[Crash, re.Match], Cause | None]]


def find_cause(error: BaseException, crash: Crash, patterns: list[Pattern]) -> tuple[str, Cause] | None:
    """Return the rule and the cause of the first pattern that fits."""
    text = f"{type(error).__name__}: {error}"
    for pattern, explain in patterns:
        match = re.search(pattern, text, re.DOTALL)
        cause = explain(crash, match) if match else None
        if cause is not None:
            return f"crash/{explain.__name__.replace('_', '-')}", cause
    return None
