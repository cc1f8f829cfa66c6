from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from training_checklist.instruments import SAME, Call, CriterionCall, ModuleCall, Step, StepListener, spread
from training_checklist.probe import CannotJudge, Fix, Hit, Hits, Limits, Place, Probe


class Choices(StepListener):
    """Sees whether the step takes the nearest of several things, such as the codes of a quantised network."""

    nearest = False

    def after(self, call: Call) -> None:
        self.nearest |= call.name == "argmin"


def detect(step: Step, limits: Limits) -> Hits:
    if step.heard().nearest:
        raise CannotJudge("each sample chooses the nearest of several codes: at first one may be nearest to all")
    if step.modules.zero_start:
        raise CannotJudge(f"{step.modules.zero_start[0]} starts from zero, and learns to tell samples apart")
    if all(spread(call.input) is None for call in step.learned):
        raise CannotJudge("no criterion of PyTorch is given rows of answers")
    differ = is_more(spread(step.batch), limits.same_output)
    yield from hits(step.learned, step.modules.rows, step.size, differ, limits.same_output)
    blind = any(is_less(row.spread[0], limits.same_output) for row in step.modules.rows)
    if blind and differ and step.pl_module.automatic_optimization:
        # Perhaps it is dropout that makes samples differ.
        again = step.again(step.batch, training=False)
        done = [call for call in again.criteria.calls if call.result is not None]
        yield from hits(done, again.modules.rows, step.size, True, limits.same_output)


def is_more(found: float | None, rounding: float) -> bool:
    return found is not None and found > rounding


def is_less(found: float | None, rounding: float) -> bool:
    return found is not None and found <= rounding


def hits(calls: list[CriterionCall], rows: list[ModuleCall], size: int | None, differ: bool, rounding: float) -> Hits:
    """Yield those criteria that are given the same for all samples, and where samples cease to differ."""
    flat = next((row for row in rows if is_more(row.spread[0], rounding) and is_less(row.spread[1], rounding)), None)
    last = next((row for row in reversed(rows) if is_more(row.spread[1], rounding)), None)
    if flat is not None:
        place, advice = Place(module=flat.named), "look at the range that goes into it, in the table above"
    elif last is not None:
        place, advice = Place(module=last.named, note="after it"), "look at what is done to its output"
    elif differ and rows:
        place, advice = Place(module=rows[0].named, note="before it"), "look at what is done to the batch before it"
    else:
        place, advice = Place(loader="train_dataloader", batch=0), "look at the batch: are its samples the same?"
    given_same = flat is None and any(is_more(spread(call.input), rounding) for call in calls)
    for call in [] if given_same else calls:  # as at the start of a solution, where others show that samples differ
        of_samples = size and call.input.ndim and len(call.input) % size == 0
        if of_samples and is_less(spread(call.input), rounding):
            yield Hit(f"all {len(call.input)} samples have the same output", place, fix=Fix(advice))


def nearly_ones(answers: Any, difference: float) -> Any:
    """Return answers that are 1, but for those of the first sample."""
    rows = torch.arange(len(answers))[:, None]
    return answers * 0 + torch.where(rows == 0, 1 + difference, 1.0)


def from_its_start(answers: Tensor, labels: Tensor) -> Tensor:
    """Hold what is answered where all begin, in every sample the same, against a condition there."""
    return functional.cross_entropy(answers, labels) + functional.mse_loss(0 * answers + answers[:1], 0 * answers)


PROBE = Probe(
    question="Does the criterion get different outputs for different samples?",
    why="an output that all samples share cannot tell them apart",
    fix=Fix("look at abs-min and abs-max in the table above"),
    thresholds={"same_output": SAME},
    listener=Choices,
    symptom=True,
    detect=detect,
    faulty=lambda answers, labels: functional.cross_entropy(nearly_ones(answers, 2.4e-7), labels),
    healthy=lambda answers, labels: functional.cross_entropy(nearly_ones(answers, 9.6e-7), labels),
    also_healthy=(from_its_start,),
)
