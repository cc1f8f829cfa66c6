"""The first step of all ranks beside the same step in one process, on a copy: DDP promises the same gradient."""

import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import wraps
from typing import Any
from unittest.mock import patch

import torch
from lightning_utilities.core.apply_func import apply_to_collection
from torch import Tensor, distributed

from training_checklist.engines.own_code import is_own, pass_on
from training_checklist.engines.places import of_frame
from training_checklist.engines.replay import call_step, loss_in, seed_all
from training_checklist.engines.stand_in import stand_in
from training_checklist.finding import Place
from training_checklist.lab.ranks import OneProcess
from training_checklist.lightning import LightningModule, Trainer, isolate_rng

REPEATS = 1e-4  # relative, of the norm of a gradient: two equal steps differ by rounding at most
MANY = 20_000_000  # parameters, of which a copy and three gradients are a gigabyte
ASKED = ("all_reduce", "all_gather", "all_gather_into_tensor", "reduce_scatter_tensor", "get_rank")


class Alone:
    """A cluster environment of one process."""

    def __init__(self, inner: Any) -> None:
        self.inner = inner

    def world_size(self) -> int:
        return 1

    def global_rank(self) -> int:
        return 0

    def local_rank(self) -> int:
        return 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)


class InOneProcess:
    """Has the gradients that one process would get: of each rank's batch, their mean, and of all batches together."""

    def __init__(self, trainer: Trainer, pl_module: LightningModule, group: Any) -> None:
        self.trainer, self.pl_module, self.group = trainer, pl_module, group
        self.world_size = distributed.get_world_size()
        self.own = [distributed.new_group([rank], backend="gloo") for rank in range(self.world_size)][
            distributed.get_rank()
        ]
        self.weights = [weight for weight in pl_module.parameters() if weight.requires_grad]
        self.obstacle = "there are too many parameters" if sum(w.numel() for w in self.weights) > MANY else ""
        if not str(trainer.precision).startswith(("32", "64")):
            self.obstacle = "in 16 bits, the rounding of a gradient is as large as what would be found"
        self.losses: list[float] = []
        self.together = 0.0
        self.places: list[Place] = []  # of lines that ask for other ranks
        self.gradients: dict[str, Tensor] = {}

    def look(self, batch: Any) -> None:
        """Take the step alone: what the project's code raises there is none of the run's affair."""
        batches = self._gathered(apply_to_collection(batch, Tensor, lambda tensor: tensor.detach().cpu()))
        own: tuple[float, Tensor] | None = None
        if not self.obstacle:
            try:
                own, again = self._step(batch, 0), self._step(batch, 1)
                if float((own[1] - again[1]).norm()) > REPEATS * float(own[1].norm()):
                    self.obstacle = "the step draws random numbers, so that it has no one gradient"
                together = joined(batches)
                self.together, gradient = self._step(self.trainer.strategy.batch_to_device(together), 0)
                self.gradients["together"] = gradient
            except NotAlike as error:
                self.obstacle = self.obstacle or str(error)
            except Exception as error:
                self.obstacle = f"the step fails in one process: {type(error).__name__}: {error}"
        known = self._gathered((self.obstacle, own))
        self.obstacle = next((obstacle for obstacle, _ in known if obstacle), "")
        if not self.obstacle:
            self.losses = [loss for _, (loss, _) in known]
            self.gradients["apart"] = torch.stack([gradient for _, (_, gradient) in known]).mean(0)

    def evidence(self, loss: float, place: Any) -> OneProcess:
        """Return how far the gradient that the ranks have now leads from those, with the loss of this rank's step."""
        losses = self._gathered(loss)
        if self.obstacle:
            return OneProcess(losses, [], 0.0, 0.0, self.obstacle)
        own = flat([weight.grad for weight in self.weights], self.weights)
        off = min(float((direction(own) - direction(other)).norm()) for other in self.gradients.values())
        return OneProcess(losses, self.losses, self.together, off, place=self.places[0] if self.places else place)

    def _gathered(self, own: Any) -> list[Any]:
        found: list[Any] = [None] * self.world_size
        distributed.all_gather_object(found, own, self.group)
        return found

    def _step(self, batch: Any, seed: int) -> tuple[float, Tensor]:
        with isolate_rng(), self._alone(), self.trainer.precision_plugin.forward_context():
            seed_all(seed)
            copy = stand_in(self.pl_module, self.trainer)
            loss = loss_in(call_step(copy, "training_step", batch))
            if loss is None:
                raise NotAlike("the step returns no loss")
            weights = [weight for weight in copy.parameters() if weight.requires_grad]
            return float(loss.detach()), flat(torch.autograd.grad(loss, weights, allow_unused=True), weights)

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Let all that asks for ranks find one, and collectives be of this process alone."""
        world, strategy = distributed.distributed_c10d._world, self.trainer.strategy
        everyone = world.default_pg
        world.default_pg = self.own
        try:
            with ExitStack() as stack:
                stack.enter_context(patch.object(strategy, "cluster_environment", Alone(strategy.cluster_environment)))
                for name in ASKED:
                    stack.enter_context(patch.object(distributed, name, self._told(getattr(distributed, name))))
                yield
        finally:
            world.default_pg = everyone

    def _told(self, function: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(function)
        def told(*arguments: Any, **options: Any) -> Any:
            frame = sys._getframe(1)
            if is_own(frame.f_code.co_filename):
                self.places.append(of_frame(frame))
            return pass_on(function, *arguments, **options)

        return told


class NotAlike(Exception):
    """There is nothing to compare with."""


def joined(batches: list[Any]) -> Any:
    """Return one batch of several, sample after sample.

    Raises:
        NotAlike: they cannot be put together.
    """
    first = batches[0]
    if isinstance(first, Tensor):
        if not first.ndim or len({(each.shape[1:], each.dtype) for each in batches}) > 1:
            raise NotAlike("the batches of the ranks cannot be put together")
        return torch.cat(batches)
    if isinstance(first, Mapping):
        return {key: joined([each[key] for each in batches]) for key in first}
    if type(first) in (list, tuple):
        return type(first)(joined(list(parts)) for parts in zip(*batches, strict=True))
    raise NotAlike(f"a batch holds {type(first).__name__}, which cannot be put together with others")


def flat(gradients: Any, weights: list[Any]) -> Tensor:
    pairs = zip(gradients, weights, strict=True)
    found = [torch.zeros_like(weight) if gradient is None else gradient for gradient, weight in pairs]
    return torch.cat([each.detach().float().flatten().cpu() for each in found])


def direction(gradient: Tensor) -> Tensor:
    return gradient / gradient.norm().clamp_min(torch.finfo().tiny)
