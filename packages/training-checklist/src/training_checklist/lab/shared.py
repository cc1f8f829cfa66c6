"""Things that several probes ask for, each made once; and code of the project that is run again for them."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial, wraps
from types import SimpleNamespace
from typing import Any, TypeVar

from training_checklist import session
from training_checklist.ending import ExitCalled, exits_are_errors
from training_checklist.engines.own_code import frames_of, is_of_checks, pass_on
from training_checklist.probe import CannotJudge, each_judged

T = TypeVar("T")


class NotYet(CannotJudge):
    """The run has not come so far; what is not known now is asked for again."""


class Subject:
    """What an item examines, and its probes are asked about. What is derived from it is a function `@once` of it.

    What a class declares is set as soon as the run has come to it; a probe that reads it earlier cannot judge.
    """

    def __getattr__(self, name: str) -> Any:
        if any(name in vars(kind).get("__annotations__", ()) for kind in type(self).__mro__):
            raise NotYet(f"the run ended before this could be judged: {name!r} was never set")
        raise AttributeError(f"{type(self).__name__} has no {name}")

    def asked_by(self, probe: Any) -> Any:
        """Return what a probe is given that is asked now."""
        self.asks = probe
        return self


def once(make: Callable[..., T]) -> Callable[..., T]:
    """Make a thing of a step, or of data, when it is first asked for, and hand the same to all who ask; or why not.

    Whatever else it is made of tells it from others, such as one of the splits.
    """

    @wraps(make)
    def shared(lab: Any, *of: Any) -> T:
        made, key = vars(lab).setdefault("made", {}), (make, *of)
        if key not in made:
            try:
                made[key] = make(lab, *of), None
            except NotYet:
                raise
            except CannotJudge as reason:
                made[key] = None, str(reason)
        thing, reason = made[key]
        if reason is not None:
            raise CannotJudge(reason)
        return thing

    return shared


def of_each(things: Callable[[Any], Iterable[Any]], none: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Make a detector of one that is given a single thing and the thresholds.

    Args:
        things: returns all that it is to look at.
        none: why it cannot judge where there is nothing; nor can it where it can judge none of them.
    """

    def of_all(detect: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(detect)
        def looking(lab: Any, limits: Any) -> Iterator[Any]:
            yield from each_judged([partial(detect, each, limits) for each in things(lab)], none)

        return looking

    return of_all


def known(lab: Any, make: Callable[..., T]) -> T | None:
    """Return what was made `@once` already; None where it was not, or could not be."""
    return vars(lab).get("made", {}).get((make.__wrapped__,), (None, None))[0]


def limits_of(probe: str) -> SimpleNamespace:
    """Return the thresholds of another probe, as the project has set them."""
    settings = session.settings()
    return settings.rules[probe].limits(settings.of_item(settings.rules[probe].item))


@contextmanager
def of_the_project(what: str) -> Iterator[None]:
    """Inside, code of the project is run where the run itself would not have called it.

    Raises:
        CannotJudge: it has raised: it need not be made for that.
    """
    try:
        with exits_are_errors():
            yield
    except CannotJudge:
        raise
    except ExitCalled as error:
        raise CannotJudge(f"{what} calls {error}") from error
    except Exception as error:
        last = frames_of(error)[-1].f_code
        if is_of_checks(last.co_filename) and last is not pass_on.__code__:
            raise
        said = (str(error).splitlines() or [""])[0]
        raise CannotJudge(f"{what} raises {type(error).__name__}: {said}") from error
