"""Schedules of learning rates in a run that an item has made short."""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any
from unittest.mock import patch

from training_checklist.engines.instead import put
from training_checklist.engines.own_code import pass_on
from training_checklist.engines.rehearsal import rehearse
from training_checklist.lightning import LightningModule, Trainer, part

MANY_STEPS = 1000  # of a run that no schedule is too long for: a thousandth of it is a step


@contextmanager
def schedules_of_short_runs(trainer: Trainer, pl_module: LightningModule, is_short: bool = True) -> Iterator[None]:
    """While it is entered, a schedule that cannot be made for so few steps, or cannot take them, is made for many.

    OneCycleLR with total_steps=5 and pct_start=0.2 divides by zero, as does in its first step a cosine over what a
    warm-up of at least one step leaves of one: with the few steps that an item lets the run have, and not with the
    project's own.

    Args:
        is_short: whether an item has made the run short; steps of a whole run are what they are.
    """
    own, kind = pl_module.configure_optimizers, type(trainer)
    counted = kind.estimated_stepping_batches

    def configure_optimizers() -> Any:
        asked, made, raised = [], None, None

        def steps(of: Trainer) -> float:
            asked.append(counted.fget(of))
            return asked[-1]

        def breaks_off(made: Any) -> bool:
            return is_short and bool(asked) and asked[-1] < MANY_STEPS and raises_within(trainer, made, asked[-1])

        try:
            with patch.object(kind, "estimated_stepping_batches", property(steps)):
                made = pass_on(own)
            if not breaks_off(made):
                return made
        except (ArithmeticError, ValueError) as error:
            raised = error
        with suppress(Exception):
            with patch.object(kind, "estimated_stepping_batches", MANY_STEPS):
                longer = pass_on(own)
            if raised is not None or not breaks_off(longer):
                return longer
        if raised is not None:
            raise raised from None
        return made

    put(pl_module, "configure_optimizers", configure_optimizers)
    try:
        yield
    finally:
        vars(pl_module).pop("configure_optimizers", None)


def raises_within(trainer: Trainer, made: Any, steps: float) -> bool:
    """Whether a schedule that `configure_optimizers` has made raises in a run of so many steps."""
    optimizers = part("core.optimizer")
    if not trainer.lightning_module.automatic_optimization:
        return False
    try:
        _, schedulers, monitor = optimizers._configure_optimizers(made)
        configs = optimizers._configure_schedulers_automatic_opt(schedulers, monitor)
        calls = {"step": int(steps), "epoch": trainer.max_epochs or 1}
        return any(
            rehearse(each.scheduler, trainer.lightning_module, calls[each.interval])[1]
            for each in configs
            if not each.reduce_on_plateau
        )
    except Exception:  # of a schedule of the project's own, which cannot be copied
        return False
