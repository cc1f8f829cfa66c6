"""Learning rate schedules, stepped on copies: what rates they go through."""

import copy
import warnings
from typing import Any

from torch.optim.lr_scheduler import ReduceLROnPlateau

from training_checklist.lightning import LightningModule, Trainer

AT_ITS_END = (ValueError, ArithmeticError)  # OneCycleLR beyond it, a function that grows
MOST = {"step": 10_000, "epoch": 100}  # calls in which a warm-up has reached its highest rate


def waits_for_a_metric(config: Any) -> bool:
    """Whether nobody knows beforehand how a schedule goes; Lightning does not ask where modules step it themselves."""
    return config.reduce_on_plateau or isinstance(config.scheduler, ReduceLROnPlateau)


def rehearse(scheduler: Any, pl_module: LightningModule, calls: int) -> tuple[list[list[float]], str]:
    """Return the rates of the optimizer's groups before each call, and what ended them too early."""
    # The module itself is shared, as a schedule may be one of its methods, and so are the weights.
    weights = {id(each): each for group in scheduler.optimizer.param_groups for each in group["params"]}
    _, twin = copy.deepcopy((scheduler.optimizer, scheduler), {**weights, id(pl_module): pl_module})
    rates = [[float(rate) for rate in twin.get_last_lr()]]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of torch, that the copied optimizer takes no step
        for _ in range(calls):
            try:
                twin.step()
            except AT_ITS_END as error:
                return rates, str(error)
            if any(isinstance(rate, complex) for rate in twin.get_last_lr()):  # (1 - epoch / epochs)**0.9, later on
                return rates, f"the rate is {twin.get_last_lr()[0]}"
            rates.append([float(rate) for rate in twin.get_last_lr()])
    return rates, ""


def usual_rates(trainer: Trainer) -> dict[int, list[float]]:
    """Return the rates of each optimizer's groups, by its id, with the highest ones that a warm-up may lead to later.

    Where rates rise, it is half of that: a peak is meant for a short time, and half of it is the mean of one cycle
    (Smith and Topin 2018).
    """
    found = {id(each): [float(group.get("lr") or 0) for group in each.param_groups] for each in trainer.optimizers}
    by_hand = not trainer.lightning_module.automatic_optimization  # by a step, of whatever interval Lightning speaks
    for config in trainer.lr_scheduler_configs:
        optimizer = getattr(config.scheduler, "optimizer", None)
        if optimizer is None or waits_for_a_metric(config):
            continue
        try:
            calls = MOST.get("step" if by_hand else config.interval, 100)
            course, _ = rehearse(config.scheduler, trainer.lightning_module, calls)
        except Exception:  # of a schedule of the project's own, which cannot be copied: it began with these
            course = [[float(group.get("initial_lr", group.get("lr")) or 0) for group in optimizer.param_groups]]
        key = id(optimizer)
        peaks = [max(rates) for rates in zip(*course, strict=True)]
        found[key] = [
            peak / 2 if peak > 2 * rate else max(rate, peak / 2)
            for peak, rate in zip(peaks, found.get(key, peaks), strict=True)
        ]
    return found
