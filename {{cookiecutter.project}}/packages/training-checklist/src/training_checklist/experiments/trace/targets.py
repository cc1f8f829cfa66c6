"""What the loss compares with: whether each sample's belongs to it, and whether it is more than filling."""

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from training_checklist.engines.batches import batch_size, leaves
from training_checklist.engines.compared import SAMPLES, Look, first_of, replaced
from training_checklist.engines.replay import seed_all
from training_checklist.engines.tracer import Call, Listener, Tracer
from training_checklist.evidence.network import ComparedTensor, PlaceInBatch, by
from training_checklist.finding import Place
from training_checklist.lightning import isolate_rng


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
    if len(values) == 1:
        found.filling, found.share = float(values), float((leaf == values).float().mean())
