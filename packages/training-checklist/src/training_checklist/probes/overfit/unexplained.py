import math
from typing import Any

from torch import Tensor

from training_checklist.instruments import (
    START,
    ZEROS,
    OneBatch,
    Small,
    batch_size,
    digest,
    explanation,
    has_silent_samples,
    initialized,
    is_explained,
    leaves,
    noise,
    of_function,
    same,
    shown,
    trained_with,
    trials,
)
from training_checklist.probe import CannotJudge, Fix, Hit, Hits, Limits, Place, Probe

INPUTS = Fix(items=("trace", "limit_batches"))


def detect(batch: OneBatch, limits: Limits) -> Hits:
    is_right = batch.accuracy == 1.0 and batch.course != "diverged"
    if batch.memorised or has_silent_samples(batch) or is_right:
        return
    if (trial := explanation(batch, START)) is not None:
        raise CannotJudge(f"{batch.standing} after {batch.steps} steps; from another start: {trial}")
    if is_explained(batch):
        return
    tried, reason = trials(batch)
    if batch.memorised:  # without the samples that repeat an id
        return
    is_near = batch.goal is not None and batch.is_still_falling and batch.is_near(batch.last)
    if is_near and batch.origin is not None and noise(batch):
        raise CannotJudge(f"{batch.standing}: {batch.course}, of a step that draws noise, which may hide some labels")
    if batch.has_learnt_half:
        raise CannotJudge(
            f"{batch.standing} after {batch.steps} steps: half of it is learnt, and it was still falling; "
            "++checks.overfit.max_steps=1000 gives it more steps"
        )
    if batch.is_on_its_way:
        raise CannotJudge(f"{batch.standing} after {batch.steps} steps: it is not below one answer for all samples yet")
    if batch.goal is None and batch.is_nearly_constant and batch.origin is not None and noise(batch):
        raise CannotJudge(
            f"{batch.standing} after {batch.steps} steps: one answer for all is where a training rests at first "
            "that draws at random what its answers are made of, such as a latent; it may need more steps to leave that"
        )
    if batch.goal is None and not batch.is_constant and math.isfinite(batch.last):
        raise CannotJudge(
            f"{batch.standing}: it {batch.course}, no change that was tried makes it fall; without a class for each "
            f"sample it is not known how far it should"
        )
    if contradicts(batch):
        raise CannotJudge(f"{batch.standing}: samples of the batch have the same inputs and other targets")
    names = ", ".join(dict.fromkeys(each.change for each in tried if each.change != ZEROS))
    constant = "; targets of other samples fit the answers as well as their own" if batch.fits_others else ""
    told = f"none of these changes helps: {names}" if names else reason or "nothing was tried"
    what = f"{batch.failure}{constant}; {told}"
    yield Hit(f"{what}; {reason}" if names and reason else what, *clue(batch))


def clue(batch: OneBatch) -> tuple[Place, str, Fix]:
    """Return the place, what fits what was seen, and which item tells more."""
    step, look = of_function(type(batch.pl_module).training_step), Fix(items=("gradients",))
    if batch.grad_norm is None:
        return step, "no parameter gets a gradient: the loss is detached from the network", look
    if batch.grad_norm == 0:
        return step, "every gradient is 0: the loss does not depend on the weights", look
    if unheld := not_held(batch):
        place = Place(parameter=shown(unheld), function="configure_optimizers")
        return place, "no optimizer holds these parameters", look
    if all_same(batch.batch):
        why = "all samples of the batch are the same, so that no network can tell them apart"
        return Place(loader="train_dataloader", batch=0), why, Fix(items=("limit_batches",))
    zeros = next((each for each in trials(batch)[0] if each.change == ZEROS), None)
    if zeros is not None and zeros.loss <= batch.last:
        why = f"with zeros for its inputs it learns as much, {zeros}: inputs do not tell the samples apart, or do not"
        return Place(note="the network or its inputs"), f"{why} reach the outputs", INPUTS
    weights = sum(weight.numel() for weight in initialized(batch.pl_module.parameters()) if weight.requires_grad)
    asked = batch_size(batch.batch) or 0 if batch.criterion is None else batch.criterion.input.numel()
    if weights < asked and batch.course != "diverged":
        # A linear network fits anything for as many samples as it has weights for an answer, and no more (Cover 1965).
        raise CannotJudge(f"{batch.standing}: {weights} weights that train are too few for any {asked} answers")
    if batch.fits_others:
        return step, "one answer for all samples, such as the mean of the targets, would do as well", INPUTS
    why = f"the gradient of all weights together has a norm of {batch.grad_norm:.2g}: the network may be too narrow, or"
    why += " its outputs may not fit the criterion"
    return Place(note="the network or the criterion"), why, Fix(items=("trace", "gradients"))


def contradicts(batch: OneBatch) -> bool:
    """Whether some samples, and not all, have the inputs of another one and another class, as first moves of games."""
    size, call = batch_size(batch.batch), batch.criterion
    if call is None or size is None or all_same(batch.batch):
        return False
    known = leaves(batch.batch)
    labels = next((leaf for leaf in known.values() if same(leaf, call.target)), None)
    if labels is None or labels.ndim != 1:
        return False
    inputs = [leaf for leaf in known.values() if leaf is not labels]
    rows = [tuple(digest(leaf[index]) for leaf in inputs) for index in range(size)]
    # Of ids, the samples that repeat none are tried by themselves.
    repeated = len({*rows}) < len({*zip(rows, labels.tolist(), strict=True)})
    return repeated and any(leaf.ndim > 1 for leaf in inputs)


def not_held(batch: OneBatch) -> list[str]:
    """Return the parameters that train and that no optimizer holds."""
    held = {id(weight) for group in batch.trainer.optimizers[0].param_groups for weight in group["params"]}
    named = batch.pl_module.named_parameters()
    return [name for name, weight in named if weight.requires_grad and id(weight) not in held]


def all_same(batch: Any) -> bool:
    """Whether every sample of a batch has the same values in its floating-point tensors, as far as it has samples."""
    size = batch_size(batch)
    inputs = [leaf for leaf in leaves(batch).values() if leaf.ndim > 1 and leaf.is_floating_point()]
    return bool(inputs) and size is not None and size > 1 and all(bool((leaf == leaf[:1]).all()) for leaf in inputs)


class Detached(Small):
    def loss(self, answers: Tensor, labels: Tensor) -> Tensor:
        return super().loss(answers, labels).detach().requires_grad_()


PROBE = Probe(
    question="Does the network memorise one batch, or does another check say why not?",
    why="what cannot learn one batch by heart learns nothing from many",
    may_be_wrong="a bottleneck, or inputs that do not tell the whole target, keep a network from memorising even one "
    "batch",
    fix=Fix(items=("trace", "gradients")),
    detect=detect,
    faulty=trained_with(module=Detached),
    healthy=trained_with(),
    symptom=True,
)
