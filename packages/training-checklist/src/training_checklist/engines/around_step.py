"""A step of the project with something of an experiment around it."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from training_checklist.engines.instead import put
from training_checklist.engines.own_code import pass_on
from training_checklist.lightning import LightningModule


@contextmanager
def around_step(
    pl_module: LightningModule, *contexts: Any, step: str = "training_step", tell: Callable[[Any], None] | None = None
) -> Iterator[None]:
    """Inside, every call of a step runs within `contexts`, and `tell` is told what it returns."""
    told = [tell] if tell is not None else []
    outer = pl_module.__dict__.get(step)  # of another experiment that is around it already
    put(pl_module, step, wrapped(getattr(pl_module, step), entered := list(contexts), told))
    inside = vars(pl_module)[step]
    try:
        yield
    finally:
        entered.clear()
        told.clear()  # another experiment may have wrapped this wrapper since, and keeps it
        if pl_module.__dict__.get(step) is inside:
            del pl_module.__dict__[step]
            if outer is not None:
                pl_module.__dict__[step] = outer


def wrapped(step: Callable[..., Any], contexts: list[Any], told: list[Callable[[Any], None]]) -> Callable[..., Any]:
    def inside(*arguments: Any, **options: Any) -> Any:
        with ExitStack() as stack:
            for context in contexts:
                stack.enter_context(context)
            result = pass_on(step, *arguments, **options)
            for tell in told:
                tell(result)
            return result

    return inside
