"""What the loss compares with: whether each sample's belongs to it, and whether it is more than filling."""

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from training_checklist.engines.batches import batch_size, leaves
from training_checklist.engines.compared import ROUNDING, SAMPLES, Look, first_of, replaced
from training_checklist.engines.criteria import Criteria, CriterionCall
from training_checklist.engines.replay import seed_all
from training_checklist.engines.tracer import Call, Listener, Tracer
from training_checklist.evidence.network import ComparedTensor, LinedUp, PlaceInBatch, by
from training_checklist.finding import Place
from training_checklist.lightning import isolate_rng

CHANGED = 1  # the sample that is given what the first one has


def compared_tensors(look: Look, step: Place, batch: Any) -> Iterator[ComparedTensor]:
    """Yield what the loss of a batch compares with; `step` is the place of the training step."""
    for path, _, belongs in look.only_compared(first_of(batch, SAMPLES)):
        meeting = Meeting(leaves(batch)[path])
        with isolate_rng(), torch.enable_grad(), Tracer(look.module, meeting):
            look.loss_of(batch)
        found = ComparedTensor(path, belongs, meeting=meeting.told)
        found.place = meeting.place or step
        if belongs:
            see_what_is_read(found, batch, look.loss_of)
        yield found


def place_in_batch(look: Look, step: Place, batch: Any) -> PlaceInBatch | None:
    """Return the losses of some samples in several orders; None where there are too few, or where it is random.

    In eval mode: dropout draws for places.
    """
    some = first_of(batch, SAMPLES)
    if batch_size(some) != SAMPLES:
        return None
    look.module.eval()
    seen = look.moved(some)
    return None if seen is None else PlaceInBatch(SAMPLES, *seen, step)


@torch.no_grad()
def lined_up(look: Look, batch: Any) -> LinedUp | None:
    """Change one sample, and see which answers and which targets of the criterion change; None of no classification.

    In eval mode, in which no answer depends on other samples.
    """
    some = first_of(batch, SAMPLES)
    if batch_size(some) is None:
        return None
    look.module.eval()
    _, known = answered(look, some)
    if known is None:
        return None
    answers = torch.zeros(known.target.numel(), dtype=torch.bool)
    targets = answers.clone()
    for path, leaf in leaves(some).items():
        if not leaf.ndim or torch.equal(leaf[CHANGED], leaf[0]):
            continue
        other = leaf.clone()
        other[CHANGED] = leaf[0]
        _, call = answered(look, replaced(some, {path: other}))
        if call is None or call.input.shape != known.input.shape or call.target.shape != known.target.shape:
            continue
        change = (scores(call) - scores(known)).abs().amax(-1)
        answers |= (change > ROUNDING * scores(known).abs().amax()).cpu()
        targets |= (call.target != known.target).flatten().cpu()
    return LinedUp(int(answers.sum()), int(targets.sum()), int((targets & answers).sum()), known.place)


@torch.no_grad()
def answered(look: Look, batch: Any) -> tuple[float, CriterionCall | None]:
    """Return the loss, and the one call that compares answers with class indices."""
    criteria = Criteria()
    with isolate_rng(), Tracer(look.module, criteria):
        seed_all()
        loss = float(look.loss_of(batch))
    return loss, criteria.classification


def scores(call: CriterionCall) -> Tensor:
    """Return answers as (positions, classes), in the order of the targets."""
    return call.input.movedim(1, -1).reshape(-1, call.input.shape[1])


class Meeting(Listener):
    """Finds the first operation in which a tensor of the batch meets what was computed from weights."""

    def __init__(self, leaf: Tensor) -> None:
        self.made = {id(leaf): leaf}  # what was made of it alone; held, lest another gets its id
        self.told = ""
        self.place: Place | None = None

    def after(self, call: Call) -> None:
        if self.place is not None or not any(id(tensor) in self.made for tensor in call.given):
            return
        if any(tensor.requires_grad for tensor in call.given):
            self.place = call.place
            self.told = f"{call.name.strip('_')} of {' with '.join(by(tuple(each.shape)) for each in call.given)}"
        else:
            self.made |= {id(tensor): tensor for tensor in call.made}


def see_what_is_read(found: ComparedTensor, batch: Any, loss_of: Any) -> None:
    """Tell which numbers of a tensor the loss of a whole batch depends on, by its gradient."""
    leaf = leaves(batch)[found.leaf]
    if not leaf.is_floating_point() or not leaf.isfinite().all():
        return
    given = leaf.detach().clone().requires_grad_()
    with isolate_rng(), torch.enable_grad():
        seed_all()
        loss = loss_of(replaced(batch, {found.leaf: given}))
        slope = torch.autograd.grad(loss, given, allow_unused=True)[0] if loss.requires_grad else None
    if slope is None or not slope.isfinite().all():
        return
    reads = slope != 0
    values = leaf[reads].unique()
    found.read, found.unread = int(reads.sum()), int((~reads).sum())
    if len(values) == 1 and float(loss.detach()) == with_one_value(leaf, reads, values, found.leaf, batch, loss_of):
        found.filling, found.share = float(values), float((leaf == values).float().mean())


def with_one_value(leaf: Tensor, reads: Tensor, value: Tensor, path: str, batch: Any, loss_of: Any) -> float:
    """Return the loss where that value stands in place of all others: a clamp reads numbers, and has no slope there."""
    with isolate_rng(), torch.no_grad():
        seed_all()
        return float(loss_of(replaced(batch, {path: torch.where(reads, leaf, value)})))
