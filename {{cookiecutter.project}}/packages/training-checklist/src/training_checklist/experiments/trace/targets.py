"""What the loss compares with: whether each sample's belongs to it, and whether it is more than filling."""

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from training_checklist.engines.batches import leaves
from training_checklist.engines.compared import Look, first_of, replaced
from training_checklist.engines.places import of_function
from training_checklist.engines.replay import call_step, loss_in, seed_all
from training_checklist.engines.stand_in import stand_in
from training_checklist.engines.tracer import Call, Listener, Tracer
from training_checklist.evidence.network import ComparedTensor, by
from training_checklist.finding import Place
from training_checklist.lightning import LightningModule, Trainer, isolate_rng

SAMPLES = 8  # that are looked at: exchanging targets among them is as telling as among more
MOVED = 0.1  # of 1 / sqrt(fan-in), the deviation that layers begin with: answers must differ from sample to sample


def compared_tensors(trainer: Trainer, pl_module: LightningModule, batch: Any) -> Iterator[ComparedTensor]:
    """Yield what the loss of a batch compares with, seen on a copy whose weights are moved a little.

    Where a layer begins with zeros, all samples have one answer, and it would not matter whose target is whose.
    """
    copy = stand_in(pl_module, trainer)
    with isolate_rng():
        seed_all()
        move(copy)

    def loss_of(given: Any) -> Tensor:
        with trainer.precision_plugin.train_step_context():
            loss = loss_in(call_step(copy, "training_step", given))
        return torch.tensor(torch.nan) if loss is None else loss

    for path, _, belongs in Look(copy, loss_of).only_compared(first_of(batch, SAMPLES)):
        meeting = Meeting(leaves(batch)[path])
        with isolate_rng(), torch.enable_grad(), Tracer(copy, meeting):
            loss_of(batch)
        found = ComparedTensor(path, belongs, meeting=meeting.told)
        found.place = meeting.place or of_function(type(pl_module).training_step)
        if belongs:
            see_what_is_read(found, batch, loss_of)
        yield found


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


@torch.no_grad()
def move(module: torch.nn.Module) -> None:
    for weight in module.parameters():
        if weight.is_floating_point():
            fan_in = weight[0].numel() if weight.ndim > 1 else 1
            weight.add_(torch.randn_like(weight) * MOVED / fan_in**0.5)


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
