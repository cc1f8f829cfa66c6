"""The experiments that take part in the job that this process runs now. `Report` begins a session with every job."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from training_checklist.settings import Settings

_experiments: list[Any] = []
_settings = Settings()
_is_endless = False
_ended_with: Exception | None = None


def begin(settings: Settings | None = None, is_endless: bool = False) -> list[Any]:
    """Return the list that every experiment is added to that takes part in the job which begins.

    Args:
        settings: of its project.
        is_endless: whether nobody has said how long it lasts, so that Lightning's 1000 epochs are no length of its own.
    """
    global _experiments, _settings, _is_endless, _ended_with
    _experiments, _settings, _is_endless = [], Settings() if settings is None else settings, is_endless
    _ended_with = None
    return _experiments


def settings() -> Settings:
    """Return what the project of the present job has set."""
    return _settings


def add(experiment: Any) -> None:
    """Have an experiment take part, once. Of a further Trainer's, the findings go to the first of the same item."""
    if any(experiment is other for other in _experiments):
        return
    first = find(experiment.item)
    if first is not None:
        experiment.follow(first)
    _experiments.append(experiment)


def lead(experiment: Any) -> None:
    """Have the findings of an item go to this experiment: its Trainer fits, and no earlier one does."""
    _experiments.remove(experiment)
    for other in _experiments:
        if other.item == experiment.item:
            other.follow(experiment)
    experiment.earlier = None
    _experiments.insert(0, experiment)


def find(item: str) -> Any | None:
    """Return the experiment of an item, or None where it does not take part."""
    return next((each for each in _experiments if each.item == item), None)


def end_with(error: Exception | None) -> None:
    """Take note of what a training has raised, or that it has come to its end."""
    global _ended_with
    _ended_with = error


def ended_with() -> Exception | None:
    """Return what the last training has raised, which its program may have caught: a search's returns a bad value."""
    return _ended_with


def unlike_the_own_length() -> str:
    """Return why this run is not as long as the project's own, "" where it is."""
    if _is_endless:
        return 'how long training lasts is not given: check(..., trainer={"max_epochs": 20})'
    shorter = next((each.item for each in _experiments if not each.is_whole), None)
    return "" if shorter is None else f"{shorter} has made this run shorter: ask for learning by itself"


@contextmanager
def aside(settings: Settings | None = None) -> Iterator[None]:
    """Inside, what Trainers add takes no part in the job: it is run once more for an experiment's own purpose.

    Args:
        settings: other ones than the project's.
    """
    global _experiments, _settings, _ended_with
    kept, (_experiments, _settings) = (_experiments, _settings, _ended_with), ([], settings or _settings)
    try:
        yield
    finally:
        _experiments, _settings, _ended_with = kept
