"""Schedules of learning rates in a run that an item has made short."""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any
from unittest.mock import patch

from training_checklist.engines.instead import put
from training_checklist.engines.own_code import pass_on
from training_checklist.engines.rehearsal import rehearse
from training_checklist.lightning import LightningModule, Trainer, part

MANY = 1000  # steps, or epochs, of a run that no schedule is too long for: a thousandth of it is one of them


@contextmanager
def schedules_of_short_runs(trainer: Trainer, pl_module: LightningModule, is_short: bool = True) -> Iterator[None]:
    """While it is entered, a schedule that cannot be made for so few steps, or cannot take them, is made for many.

    OneCycleLR with total_steps=5 and pct_start=0.2 divides by zero, as does in its first step a cosine over what a
    warm-up of at least one step, or epoch, leaves of one: with the few that an item lets the run have, and not with the
    project's own.

    Args:
        is_short: whether an item has made the run short; the length of a whole run is what it is.
    """
    own, kind = pl_module.configure_optimizers, type(trainer)
    lengths = {name: getattr(kind, name) for name in ("estimated_stepping_batches", "max_epochs")}

    def configure_optimizers() -> Any:
        asked, made, raised = set(), None, None

        def answering(name: str) -> property:
            def answer(of: Trainer) -> Any:
                asked.add(name)
                return pass_on(lengths[name].fget, of)  # which may load data first

            return property(answer)

        def breaks_off(made: Any) -> bool:
            return is_short and bool(asked) and raises_within(trainer, made)

        try:
            with patch.multiple(kind, **{name: answering(name) for name in lengths}):
                made = pass_on(own)
            if not breaks_off(made):
                return made
        except (ArithmeticError, ValueError) as error:
            raised = error
        with suppress(Exception):
            with patch.multiple(kind, **dict.fromkeys(lengths, MANY)):
                longer = pass_on(own)
            if raised is not None or not breaks_off(longer):
                return longer
        if raised is not None:
            raise raised from None
        return made

    put_back = put(pl_module, "configure_optimizers", configure_optimizers)
    try:
        yield
    finally:
        put_back()


def raises_within(trainer: Trainer, made: Any) -> bool:
    """Whether a schedule that `configure_optimizers` has made raises in a run of fewer steps than many."""
    optimizers = part("core.optimizer")
    if not trainer.lightning_module.automatic_optimization:
        return False
    try:
        steps = trainer.estimated_stepping_batches
        _, schedulers, monitor = optimizers._configure_optimizers(made)
        configs = optimizers._configure_schedulers_automatic_opt(schedulers, monitor)
        calls = {"step": int(steps), "epoch": trainer.max_epochs or 1}
        return steps < MANY and any(
            rehearse(each.scheduler, trainer.lightning_module, calls[each.interval])[1]
            for each in configs
            if not each.reduce_on_plateau
        )
    except Exception:  # of a schedule of the project's own, which cannot be copied
        return False
