"""What a step makes of right and of wrong answers: the network's are replaced, and the rest is the project's own."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from math import isclose
from typing import Any

import torch
from torch import Tensor, nn
from torch.multiprocessing.reductions import StorageWeakRef
from torchmetrics import Metric

from training_checklist.direction import better
from training_checklist.engines.batches import is_dense, mapped, same, tensors
from training_checklist.engines.compared import has_half, move
from training_checklist.engines.criteria import DISTANCES, Criteria, CriterionCall
from training_checklist.engines.logged import STEPS, logged_by
from training_checklist.engines.replay import call_step, loss_in, seed_all
from training_checklist.engines.splits import Split
from training_checklist.engines.stand_in import stand_in
from training_checklist.engines.tracer import Tracer
from training_checklist.engines.uncopied import after_forward
from training_checklist.finding import NOWHERE, Place
from training_checklist.lab.schedules import directions
from training_checklist.lab.shared import of_the_project, once
from training_checklist.lab.two_epochs import TwoEpochs
from training_checklist.lightning import LightningModule, Trainer, isolate_rng
from training_checklist.probe import CannotJudge

SURE = 15.0  # logit of a right answer, and less that of a wrong one: of 1,000 classes, softmax gives it all but 1e-10
# Of right answers, to both sides of 0.5, which is a threshold of probabilities, and not of these: as probabilities,
# 0.634 and 0.611, both are on one side of any that people choose.
LOGITS = (0.55, 0.45)
SAMPLES, FEW = 64, 16  # of which a metric is told apart; where the loader's batches are small, as few will do
SAME = 1e-5  # relative: the same float32 numbers, added up in another order
TOLD_BY = 1024  # numbers of a tensor that is not kept: of two batches, hardly ever are so many the same
Answer = Callable[[Tensor], Tensor]


@dataclass
class Answered:
    """A step that was taken twice, with other answers put in place of the network's.

    Args:
        step: "validation_step".
        right: the values that it logs where each answer is the one that the criterion asks for, by name.
        wrong: likewise, where each is another one.
        loss: that it returns in both cases; None where it returns none.
        place: of the criterion.
        one_elsewhere: the values that it logs with one class as answer where the criterion ignores the target.
        other_elsewhere: likewise, with another class.
        ignored: number of targets that it ignores.
        barely: the values that it logs where answers of yes and no are right, by their logit.
        alone: whether the module that gives the answers returns nothing beside them, such as classes made of them.
        of_others: names of what is the same for any answers, and another number with other weights: it is made of
            something else that the network computes, as of its latents.
        misnamed: names of metrics of which more is better by the name and less by the class, or the other way round.
    """

    step: str
    right: dict[str, float] = field(default_factory=dict)
    wrong: dict[str, float] = field(default_factory=dict)
    loss: tuple[float, float] | None = None
    place: Place = NOWHERE
    one_elsewhere: dict[str, float] = field(default_factory=dict)
    other_elsewhere: dict[str, float] = field(default_factory=dict)
    ignored: int = 0
    barely: dict[float, dict[str, float]] = field(default_factory=dict)
    alone: bool = True
    of_others: set[str] = field(default_factory=set)
    misnamed: set[str] = field(default_factory=set)

    @property
    def counting_ignored(self) -> list[str]:
        """The metrics, but for losses, that change with answers which the criterion does not ask for."""
        one, other = self.one_elsewhere, self.other_elsewhere
        names = [name for name in one if is_metric(name) and name in other]
        return [name for name in names if not isclose(one[name], other[name], rel_tol=SAME)]


def is_metric(name: str) -> bool:
    """Whether more or less of what is logged is better, as its name tells; not of a throughput, say."""
    return "loss" not in name.lower() and better(name) is not None


def answered(split: Split, trainer: Trainer, pl_module: LightningModule, until: float) -> Answered | None:
    """Take the step of a split with right and with wrong answers.

    None where the criterion is not given what a layer answers, so that nothing can be put there.
    """
    step = f"{STEPS[split.stage]}_step"
    if not split.indexable or has_half(pl_module):
        return None
    # What a step of its own code computes, as the beams of a search, may be far more than what it is given.
    number = min(SAMPLES, max(FEW, 2 * (split.loader.batch_size or 1)))
    [(_, batch)] = split.fetch(split.holdable(number, trainer), trainer, until, number)
    copy = stand_in(pl_module, trainer).eval()  # without dropout, the same is answered to the same
    seen, criteria = Outputs(copy), Criteria()
    with torch.no_grad(), isolate_rng(), seen, Tracer(copy, criteria):
        seed_all()
        call_step(copy, step, batch)
    given = {id(call.input): call for call in criteria.calls}
    call = next(iter(given.values())) if len(given) == 1 else None
    place = None if call is None else seen.place_of(call.input)
    # What is compared with itself, or with another answer, has no right one; nor has what is compared with several
    # targets, as mixup does.
    if place is None or any(
        seen.place_of(each.target) is not None or not same(each.target, call.target) for each in criteria.calls
    ):
        return None
    known = answers(call)
    if known is None:
        return None
    results, binary = [], barely(call)
    for answer in (*known, *(elsewhere(call) or ()), *binary.values()):
        logged, loss = taken(stand_in(pl_module, trainer), split, batch, place, partial(put, call.input, answer))
        if logged is None:
            return None
        results.append((logged, loss))
    (right, one), (wrong, two), *further = results
    losses = None if one is None or two is None else (one, two)
    told = directions(trainer)
    misnamed = {name for name in right if None not in (told.get(name), better(name)) and told[name] != better(name)}
    found = Answered(step, right, wrong, losses, call.place, alone=place.alone, misnamed=misnamed)
    if any(right[name] == wrong.get(name) for name in right):  # by which target is whose
        other = partial(put, call.input, lambda own: 2 * own + 1)
        doubled = taken(stand_in(pl_module, trainer), split, batch, place, other)[0] or {}
        untouched = {name for name in right if right[name] == wrong.get(name) == doubled.get(name)}
        found.of_others = untouched & made_of_weights(split, trainer, pl_module, batch) if untouched else set()
    if binary:
        found.barely = {score: values for score, (values, _) in zip(binary, further, strict=True)}
    elif further:
        (found.one_elsewhere, _), (found.other_elsewhere, _) = further
        found.ignored = int((call.target == call.ignored).sum())
    return found


def made_of_weights(split: Split, trainer: Trainer, pl_module: LightningModule, batch: Any) -> set[str]:
    """Return the names of what a step logs as another number where all weights are moved a little."""
    as_it_is, moved = (stand_in(pl_module, trainer).eval() for _ in range(2))
    with torch.no_grad(), isolate_rng():
        move(moved)
    before, after = (logged_by(each, split.stage, batch, not split.of_several)[0] for each in (as_it_is, moved))
    return {name for name in before if before[name] != after.get(name)}


@dataclass
class Output:
    """What a module has returned, beside the first tensor that it was given; it holds neither.

    Args:
        path: of the module.
        number: of the call among those of that module.
        given: some numbers of the first tensor.
        given_shape: None where there was none.
        storage: of what it has returned; with it, how that lies in there.
    """

    path: str
    number: int
    given: Tensor | None
    given_shape: torch.Size | None
    storage: StorageWeakRef
    shape: torch.Size
    offset: int
    is_contiguous: bool


class Outputs:
    """While it is entered, keeps which module has returned what, the innermost that has it first."""

    def __init__(self, module: nn.Module) -> None:
        self.module = module
        self.found: list[Output] = []
        self.calls: dict[str, int] = {}
        self.handles: list[Any] = []

    def __enter__(self) -> "Outputs":
        for path, part in self.module.named_modules():
            if not isinstance(part, Metric):
                self.handles.append(after_forward(part, partial(self._keep, path)))
        return self

    def __exit__(self, *error: object) -> None:
        for handle in self.handles:
            handle.remove()

    def _keep(self, path: str, module: nn.Module, given: Any, output: Any) -> None:
        number = self.calls[path] = self.calls.get(path, -1) + 1
        first = next(tensors(given), None)
        given = (None, None) if first is None else (some_of(first), first.shape)
        for each in filter(is_dense, tensors(output)):
            storage = StorageWeakRef(each.untyped_storage())
            lies = each.shape, each.storage_offset(), each.is_contiguous()
            self.found.append(Output(path, number, *given, storage, *lies))

    def place_of(self, tensor: Tensor) -> "Source | None":
        """Return where a tensor comes from that is what a module has returned, or a view of it."""
        storage = StorageWeakRef(tensor.untyped_storage())
        for made in self.found:
            if made.storage == storage and made.is_contiguous:
                alike = {each.number for each in self.found if each.path == made.path and is_alike(each, made)}
                alone = sum((each.path, each.number) == (made.path, made.number) for each in self.found) == 1
                return Source(made.path, alike, tensor.storage_offset() - made.offset, alone)
        return None


@dataclass
class Source:
    """Where answers come from.

    Args:
        path: of the module that returns them.
        calls: numbers of all its calls that were given the same: a step may ask once for the loss, once for a metric.
        offset: in what it returns.
        alone: whether each call returns one tensor.
    """

    path: str
    calls: set[int]
    offset: int
    alone: bool


def is_alike(one: Output, other: Output) -> bool:
    """Whether two calls of a module were given the same, and have returned something of one shape."""
    if one.given is None or other.given is None or one.shape != other.shape:
        return one is other
    return one.given_shape == other.given_shape and same(one.given, other.given)


def some_of(tensor: Tensor) -> Tensor:
    """Return some numbers of a tensor, by which two of one shape are told apart."""
    flat = tensor.detach().flatten()
    return flat[:: max(1, len(flat) // TOLD_BY)].clone()


def answers(call: CriterionCall) -> tuple[Answer, Answer] | None:
    """Return what gives right and wrong answers to a criterion, None where it asks for something else."""
    given, target = call.input, call.target
    if call.num_classes is not None and given.ndim > 1 and given.shape[1] > 1:
        if call.options.get("reduction") == "none" or call.outside:
            return None

        def scores(shift: int) -> Tensor:
            asked = torch.where(target == call.ignored, given.argmax(1), (target + shift) % given.shape[1])
            hot = nn.functional.one_hot(asked, given.shape[1]).movedim(-1, 1).to(given.dtype)
            logits = SURE * (2 * hot - 1)
            return logits.log_softmax(1) if call.name == "nll_loss" else logits

        return (lambda _: scores(0)), (lambda _: scores(1))
    if given.shape != target.shape or not target.is_floating_point():
        return None
    if call.name.startswith("binary_cross_entropy") and bool(((target == 0) | (target == 1)).all()):
        if "logits" in call.name:
            return (lambda _: SURE * (2 * target - 1)), (lambda _: SURE * (1 - 2 * target))
        return (lambda _: target.clone()), (lambda _: 1 - target)
    if call.name in DISTANCES and len(target) > 1 and bool(target.std() > 0):
        return (lambda _: target.clone()), (lambda _: target.roll(1, 0))
    return None


def barely(call: CriterionCall) -> dict[float, Answer]:
    """Return what answers yes or no rightly, with more doubts or less, by the logit of the answers."""
    are_squashed = "logits" in call.name and bool(((call.input >= 0) & (call.input <= 1)).all())  # and no logits
    if not call.name.startswith("binary") or are_squashed:
        return {}

    def scores(logit: float) -> Tensor:
        logits = logit * (2 * call.target - 1)
        return logits if "logits" in call.name else logits.sigmoid()

    return {logit: partial(lambda logit, _: scores(logit), logit) for logit in LOGITS}


def elsewhere(call: CriterionCall) -> tuple[Answer, Answer] | None:
    """Return what gives the network's answers, but for one class, or another, where the target is ignored."""
    ignored = call.target == call.ignored
    if call.num_classes is None or not bool(ignored.any()):
        return None

    def sure(own: Tensor, answer: int) -> Tensor:
        scores = torch.full_like(own, -SURE).index_fill(1, torch.tensor(answer, device=own.device), SURE)
        scores = scores.log_softmax(1) if call.name == "nll_loss" else scores
        return torch.where(ignored.unsqueeze(1), scores, own)

    return partial(sure, answer=0), partial(sure, answer=1)


def put(like: Tensor, answer: Answer, offset: int, own: Tensor) -> Tensor | None:
    """Return an output with other answers where the criterion looks; None where it does not look at this one."""
    last = offset + sum((size - 1) * stride for size, stride in zip(like.shape, like.stride(), strict=True))
    if not own.is_contiguous() or own.dtype != like.dtype or offset < 0 or not 0 <= last < own.numel():
        return None
    new = own.detach().clone()
    part = new.as_strided(like.shape, like.stride(), offset)
    part.copy_(answer(part))
    return new


def taken(
    copy: LightningModule, split: Split, batch: Any, source: Source, answer: Callable[[int, Tensor], Tensor | None]
) -> tuple[dict[str, float] | None, float | None]:
    """Return what a step logs and its loss where a module answers something else; None where it never did."""
    copy.eval()
    calls, done = count(), []

    def replace(module: nn.Module, given: Any, output: Any) -> Any:
        if next(calls) not in source.calls:
            return output

        def with_answers(own: Tensor) -> Tensor:
            new = answer(source.offset, own)
            done.extend([new] * (new is not None))
            return own if new is None else new

        return mapped(output, with_answers)

    handle = after_forward(copy.get_submodule(source.path), replace)
    try:
        found, result = logged_by(copy, split.stage, batch, ends=not split.of_several)
    finally:
        handle.remove()
    if len(done) != len(source.calls):
        return None, None
    loss = loss_in(result) if split.stage == "train" else None  # what validation returns may be anything
    return found, None if loss is None else float(loss)


@once
def answered_steps(run: TwoEpochs) -> list[Answered]:
    """Return the steps of training and validation that could be taken with other answers.

    Raises:
        CannotJudge: there is none.
    """
    found, why = [], CannotJudge("no criterion is given what a layer answers, with targets that have a right answer")
    for stage in ("train", "val"):
        try:
            split = run.indexed(stage)
            with of_the_project(f"{STEPS[stage]}_step, taken again with other answers,"):
                seen = answered(split, run.trainer, run.pl_module, time.monotonic() + run.options["seconds"])
        except CannotJudge as reason:
            why = reason
        else:
            found += [] if seen is None else [seen]
    if not found:
        raise why
    return found
