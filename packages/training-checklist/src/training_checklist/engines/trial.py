"""A short training of a copy of the network, by hand, of which the run knows nothing."""

import math
from collections.abc import Iterator
from copy import deepcopy
from typing import Any

import torch
from torch import Tensor
from torch.optim import Optimizer

from training_checklist.engines.batches import batch_size, leaves
from training_checklist.engines.compared import Look, move, replaced
from training_checklist.engines.criteria import Criteria
from training_checklist.engines.replay import as_loaded, call_step, collecting_nothing, loss_in, seed_all
from training_checklist.engines.stand_in import backward, put_in, stand_in
from training_checklist.engines.tracer import Call, Listener, Tracer
from training_checklist.lightning import LightningModule, Trainer, is_overridden, isolate_rng

RATE, DECAY, CLIPPING = "optimizer.lr", "optimizer.weight_decay", "trainer.gradient_clip_val"
DRAWN = "the loss is of what the network's own answers have drawn, so that a higher one may be progress"
DRAWS = {"multinomial", "bernoulli", "bernoulli_", "normal", "poisson"}  # with probabilities, means or rates


class Drawn(Listener):
    """Keeps what random numbers are drawn by."""

    def __init__(self) -> None:
        self.given: list[Tensor] = []

    def before(self, call: Call) -> None:
        if call.name in DRAWS:
            # What is filled with numbers may be any memory.
            given = call.given[1:] if call.name.endswith("_") else call.given
            self.given += [tensor.detach().clone() for tensor in given]


NO_OPTIMIZER = "configure_optimizers makes no optimizer"


class NoLoss(Exception):
    """A step of the copy has returned no loss."""


class Trial:
    """A copy of the network and of its optimizer that takes steps on batches at hand.

    A step is forward, backward, clipping and the optimizer's step. No schedule is stepped, and no other hook is called,
    neither the module's nor a callback's, unless the step misses an attribute or its value: then those of the module
    that begin an epoch may make it. What differs from the run therefore lies there.

    Args:
        pl_module: the network, or the copy that another trial has.
        optimizer: that holds its parameters.
    """

    def __init__(self, trainer: Trainer, pl_module: LightningModule, optimizer: Optimizer) -> None:
        copies: dict[int, Any] = {}
        self.module = stand_in(pl_module, trainer, copies)
        self.optimizer = deepcopy(optimizer, copies)
        vars(self.module).pop("clip_gradients")  # a copy clips like its original
        vars(self.optimizer).update(optimizer=self.optimizer)  # as Lightning's own has the one that it wraps
        self.module.optimizers = lambda *_, **__: self.optimizer
        self.module.manual_backward = backward
        self.trainer, self.criteria = trainer, Criteria()
        self.clips, self.same_draws, self.steps = clips(trainer, pl_module), False, 0
        self.still: list[str] = []  # buffers that a step leaves as they were
        self.before = self.after = math.nan
        self.grad_norm: float | None = None

    def again(self, change: str = "", factor: float = 1.0) -> "Trial":
        """Return another trial that begins where this one stands, with one setting changed.

        Args:
            change: RATE or DECAY, which is multiplied in every group of the optimizer, or CLIPPING, which is left out.
        """
        trial = Trial(self.trainer, self.module, self.optimizer)
        trial.clips &= change != CLIPPING
        for group in trial.optimizer.param_groups if change in (RATE, DECAY) else ():
            key = change.removeprefix("optimizer.")
            group[key] = group[key] * factor  # not in place: groups may share a tensor
        return trial

    @torch.no_grad()
    def shuffle_weights(self) -> None:
        """Put the numbers of every weight that trains into another order, the same one each time."""
        generator = torch.Generator().manual_seed(0)
        for weight in self.module.parameters():
            if weight.requires_grad:
                order = torch.randperm(weight.numel(), generator=generator).to(weight.device)
                weight.copy_(weight.flatten()[order].view_as(weight))

    def set_rates(self, rates: list[float]) -> None:
        for group, rate in zip(self.optimizer.param_groups, rates, strict=True):
            group["lr"] = rate

    def options(self, key: str) -> list[float]:
        """Return an option of every group of the optimizer."""
        return [float(group.get(key, 0)) for group in self.optimizer.param_groups]

    def loss(self, batch: Any) -> Tensor:
        """Return the loss of `training_step`; the criteria that it called are in `criteria` afterwards.

        Raises:
            NoLoss: it returned none.
        """
        self.criteria.calls.clear()
        with Tracer(self.module, self.criteria), self.trainer.precision_plugin.train_step_context():
            try:
                output = call_step(self.module, "training_step", as_loaded(batch))
            except (AttributeError, TypeError):  # of None, for one
                self._begin_epoch()
                output = call_step(self.module, "training_step", as_loaded(batch))
        loss = loss_in(output)
        if loss is None:
            raise NoLoss("training_step returned no loss")
        return loss

    def _begin_epoch(self) -> None:
        self.criteria.calls.clear()
        with put_in(self.module, self.trainer):
            self.module.on_train_start()
            self.module.on_train_epoch_start()

    def take_step(self, batch: Any) -> float:
        """Return the loss that the step began with."""
        if self.same_draws:
            seed_all()
        if not self.module.automatic_optimization:
            self.steps += 1
            return float(self.loss(batch).detach())
        self.optimizer.zero_grad()
        kept = {name: self.module.get_buffer(name).clone() for name in self.still}
        loss = self.loss(batch)
        self.criteria.leave_out(loss)
        loss.backward()
        if self.steps == 0:
            self.grad_norm = norm_of_gradients(self.module)
        if self.clips:
            clip = self.trainer.gradient_clip_val, self.trainer.gradient_clip_algorithm
            self.module.configure_gradient_clipping(self.optimizer, *clip)
        self.optimizer.step()
        self.steps += 1
        for name, buffer in kept.items():
            self.module.get_buffer(name).copy_(buffer)
        return float(loss.detach())

    def train(self, batches: list[Any], steps: int) -> float:
        """Take some steps, and return by which share the loss on these batches has fallen since the first."""
        known = batches[:8]
        if self.steps == 0:
            self.before = self.mean(known)
        for _ in range(steps):
            self.take_step(batches[self.steps % len(batches)])
        self.after = self.mean(known)
        fall = (self.before - self.after) / max(abs(self.before), 1e-12)
        return fall if math.isfinite(fall) else -math.inf

    @torch.no_grad()
    def mean(self, batches: list[Any], seed: int = 0) -> float:
        """Return the mean loss; in training mode, since running statistics lag behind in so short a training."""
        with isolate_rng(), collecting_nothing(self.module):
            seed_all(seed)  # the same dropout whatever is compared
            mean = sum(float(self.loss(batch)) for batch in batches) / len(batches)
        self.criteria.detach()
        return mean

    @torch.no_grad()
    def targets(self, batch: Any) -> list[str]:
        """Return what in a batch is only compared with: exchanged among samples, it changes no answer of the network.

        It is empty for what has no such part, as a language model's tokens, or none that can be exchanged by itself.
        """
        size = batch_size(batch)
        if size is None or size < 2:
            return []
        answers, wanted = self._compared(batch)
        if not equal(wanted, self._compared(batch)[1]):  # drawn, or an answer, where the criterion is given it second
            return []
        found = []
        for path, leaf in leaves(batch).items():
            if leaf.ndim and not torch.equal(leaf, leaf.roll(1, 0)):
                same_answers, others = self._compared(replaced(batch, {path: leaf.roll(1, 0)}))
                found += [path] if equal(answers, same_answers) and not equal(wanted, others) else []
        if answers:
            return found
        # A loss that is written by hand calls no criterion.
        return [path for path, _, depends in Look(self.module, self.loss).only_compared(batch) if depends]

    def draws_its_answers(self, batch: Any) -> bool:
        """Whether the loss is about what is drawn by the network's own answers.

        As with a policy, the best loss is another one for other weights then, and training need not lower it.
        """
        if not self.module.automatic_optimization:
            return False
        seen = []
        for moved in (False, True):
            copy, drawn = self.again(), Drawn()
            with isolate_rng():
                seed_all()
                move(copy.module) if moved else None
            with Tracer(copy.module, drawn):
                copy.mean([batch])
            seen.append(drawn.given)
        return not equal(*seen)

    def answers_alike(self, batch: Any) -> bool:
        """Whether no layer with weights tells the samples of a batch apart, though the loss depends on what is in it.

        So it is with a network that is fed zeros, whoever has written its loss.
        """
        return Look(self.module, self.loss).is_blind(batch)

    def _compared(self, batch: Any) -> tuple[list[Tensor], list[Tensor]]:
        self.mean([batch])
        calls = self.criteria.calls
        # What has no gradient beside what has one is only logged.
        calls = [call for call in calls if isinstance(call.result, Tensor) and call.result.requires_grad] or calls
        return [call.input for call in calls], [call.target for call in calls]


def equal(some: list[Tensor], others: list[Tensor]) -> bool:
    return len(some) == len(others) and all(map(torch.equal, some, others))


def without_inputs(batch: Any, targets: list[str]) -> Any:
    """Return a batch with zeros in place of all that is no target."""
    inputs = {path: leaf for path, leaf in leaves(batch).items() if path not in targets}
    return replaced(batch, {path: torch.zeros_like(leaf) for path, leaf in inputs.items()})


def exchanged(batch: Any, targets: list[str], number: int) -> Iterator[Any]:
    """Yield batches in which the targets belong to other samples, exchanged in the same ways each time."""
    generator = torch.Generator().manual_seed(0)
    known = leaves(batch)
    for _ in range(number):
        order = torch.randperm(len(known[targets[0]]), generator=generator)
        yield replaced(batch, {path: known[path][order.to(known[path].device)] for path in targets})


def clips(trainer: Trainer, pl_module: LightningModule) -> bool:
    """Whether gradients are changed before the optimizer gets them."""
    return bool(trainer.gradient_clip_val) or is_overridden("configure_gradient_clipping", pl_module)


def norm_of_gradients(module: torch.nn.Module) -> float | None:
    """Return the norm of all gradients as one vector, or None where there is none."""
    # Those of a copied ScriptModule are no leaves.
    leaves_of_module = (parameter for parameter in module.parameters() if parameter.is_leaf)
    norms = [parameter.grad.norm() for parameter in leaves_of_module if parameter.grad is not None]
    return float(torch.stack(norms).norm()) if norms else None
