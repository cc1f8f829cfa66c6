import math
from collections.abc import Iterator
from typing import Any

from training_checklist.engines.parameter_names import shown
from training_checklist.evidence.one_batch import BY_HAND, ZEROS, OneBatch, OneTrial
from training_checklist.finding import FAILED, Fix, Place
from training_checklist.rule import CannotJudge, Hit, Rule

INPUTS = Fix(items=("trace", "limit_batches"))


def judge(batch: OneBatch, limits: Any) -> Iterator[Hit]:
    if batch.memorised or batch.silent or batch.is_right or any(map(batch.explains, batch.trials or [])):
        return
    if batch.is_on_its_way:
        raise CannotJudge(f"{batch.standing} after {batch.steps} steps: it is not below one answer for all samples yet")
    if batch.goal is None and not batch.is_constant and math.isfinite(batch.last):
        raise CannotJudge(
            f"{batch.standing}: it {batch.course}, no change that was tried makes it fall; without a class for each "
            f"sample it is not known how far it should"
        )
    tried = ", ".join(dict.fromkeys(each.change for each in batch.trials or [] if each.change != ZEROS))
    constant = "; targets of other samples fit the answers as well as their own" if batch.is_constant else ""
    told = f"none of these changes helps: {tried}" if tried else batch.reason or "nothing was tried"
    what = f"{batch.failure}{constant}; {told}"
    yield Hit(f"{what}; {batch.reason}" if tried and batch.reason else what, *clue(batch))


def clue(batch: OneBatch) -> tuple[Place, str, Fix]:
    """Return the place, what fits what was seen, and which item tells more."""
    step, look = batch.step, Fix(items=("gradients",))
    if batch.grad_norm is None:
        return step, "no parameter gets a gradient: the loss is detached from the network", look
    if batch.grad_norm == 0:
        return step, "every gradient is 0: the loss does not depend on the weights", look
    if batch.unheld:
        names = shown(batch.unheld)
        return Place(parameter=names, function="configure_optimizers"), "no optimizer holds these parameters", look
    if batch.all_same:
        why = "all samples of the batch are the same, so that no network can tell them apart"
        return Place(loader="train_dataloader", batch=0), why, Fix(items=("limit_batches",))
    zeros = next((each for each in batch.trials or [] if each.change == ZEROS), None)
    if zeros is not None and zeros.loss <= batch.last:
        why = f"with zeros for its inputs it learns as much, {zeros}: inputs do not tell the samples apart, or do not"
        return Place(note="the network or its inputs"), f"{why} reach the outputs", INPUTS
    if batch.is_constant:
        return step, "one answer for all samples, such as the mean of the targets, would do as well", INPUTS
    why = "weights have gradients and move: the network may be too narrow, or its outputs may not fit the criterion"
    return Place(note="the network or the criterion"), why, Fix(items=("trace", "gradients"))


RULE = Rule(
    id="overfit/unexplained",
    item="overfit",
    question="Does the network memorise one batch, or is a cause known why not?",
    why="what cannot learn one batch by heart learns nothing from many",
    severity=FAILED,
    evidence=OneBatch,
    judge=judge,
    fix=Fix(items=("trace", "gradients")),
    faulty=lambda: OneBatch([1.4, 1.1], accuracy=0.4, goal=0.05, trials=[OneTrial(BY_HAND, 1.1, 100)]),
    healthy=lambda: OneBatch([1.4, 1.1, 0.04], accuracy=1.0, goal=0.05, memorised=True),
    symptom=True,
)
