"""The checks that take part in the job that this process runs now. `Report` begins a session with every job."""

from typing import Any

from training_checklist.verdict import Refused

_checks: list[Any] = []


def begin() -> list[Any]:
    """Return the list that every check is added to that takes part in the job which begins."""
    global _checks
    _checks = []
    return _checks


def add(check: Any) -> None:
    """Have a check take part, once.

    Raises:
        Refused: it and another one both decide how long the run lasts.
    """
    if any(check is other for other in _checks):
        return
    others = [other.item for other in _checks if other.shapes_run]
    if check.shapes_run and others:
        raise Refused(
            f"+debug=[{others[0]},{check.item}]: each of them decides how long the run lasts; "
            f"run them one after the other, or everything with +debug=checklist"
        )
    _checks.append(check)


def find(item: str) -> Any | None:
    """Return the check of an item, or None where it does not take part."""
    return next((check for check in _checks if check.item == item), None)
