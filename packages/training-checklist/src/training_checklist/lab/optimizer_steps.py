"""What the steps of an optimizer are given, and what they change."""

import copy
from collections import OrderedDict, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn.parameter import is_lazy
from torch.optim import Optimizer
from torch.optim.optimizer import register_optimizer_step_post_hook

from training_checklist.engines.compared import HALF


@dataclass
class Effect:
    """One step of an optimizer.

    Args:
        made: norm of its gradients as backward made them.
        got: norm of what was left of them in the step.
        changed: whether a weight has another value after it.
        put_back: whether all of them had the old values again before the next step.
    """

    made: float
    got: float
    changed: bool
    put_back: bool = False


class OptimizerSteps:
    """Watches one optimizer: its gradients from backward to its step, its weights, and the counters of its state.

    Args:
        rates: usual ones of its groups, in the run as a whole.

    Attributes:
        ratios: of the weights' change to their norm, or that of nn.Linear's first weights where theirs is less, at the
            learning rate that a schedule starts from.
        kept: share of the gradient's norm that is left in the step, by clipping.
        left_over: by step that follows a backward pass, whether gradients of the step before were still there in each
            of its backward passes.
        forgotten: between two steps each, how many counters in its state had gone back, of all.
        lost: of each 16-bit weight: the share of a step that is rounded away; `lost_of_all`: of all of them.
        rate: its greatest learning rate in the last step, None where it has none.
        backwards: backward passes that made gradients.
        discarded: how many of these gradients were zeroed before any step.
    """

    def __init__(self, optimizer: Optimizer, rates: list[float]) -> None:
        self.optimizer, self.rates = optimizer, rates
        self.effects: list[Effect] = []
        self.ratios: list[float] = []
        self.kept: list[float] = []
        self.left_over: list[bool] = []
        self.forgotten: list[tuple[int, int]] = []
        self.lost: dict[Tensor, list[float]] = {}
        self.lost_of_all: list[float] = []
        self.rate: float | None = None
        self.backwards = self.discarded = 0
        self._made = 0.0
        self._pending = False  # whether a backward pass has made gradients that no step has used yet
        self._in_step = self._of_step = False  # now, and at the last backward: a closure may be called several times
        self._from_zero = False
        self._zeroed: bool | None = None  # since the last step; None where no backward pass has looked
        self._before: dict[Tensor, Tensor] = {}
        self._counts: dict[Tensor, float] = {}
        self._handles = [
            optimizer.register_step_pre_hook(self._begin),
            optimizer.register_step_post_hook(self._end),
            register_optimizer_step_post_hook(self._used_by),
        ]

    @property
    def parameters(self) -> list[Tensor]:
        return [p for group in self.optimizer.param_groups for p in group["params"] if not is_lazy(p)]

    def before_backward(self) -> None:
        empty = not any(norm for norm in gradient_norms(self.parameters) if norm)
        self._zeroed = bool(self._zeroed) or empty
        self.discarded += self._pending and empty and not self._of_step

    def after_backward(self) -> None:
        self._made = total(gradient_norms(self.parameters))
        self._pending = self._made > 0
        self.backwards += self._pending
        self._of_step = self._in_step

    def finish(self) -> None:
        """Look at what has become of the last step, and watch no more."""
        self._look_back()
        for handle in self._handles:
            handle.remove()
        self._before.clear()

    @property
    def name(self) -> str:
        return type(self.optimizer).__name__

    @property
    def with_gradients(self) -> list[Effect]:
        return [effect for effect in self.effects if effect.made > 0]

    def _begin(self, *_: Any) -> None:
        """Before a step; where Lightning drives the optimizer, that is before its forward pass, too."""
        self._look_back()
        self._in_step, self._of_step = True, False
        self._before = {p: p.detach().clone() for p in self.parameters}
        now = self._counters()
        if self._counts:
            common = [p for p in self._before if p in self._counts]
            back = sum(now.get(p, 0.0) < self._counts[p] for p in common)
            self.forgotten.append((back, len(common)))

    def _used_by(self, optimizer: Optimizer, *_: Any) -> None:
        """After a step of any optimizer: one that the step makes itself may have used these gradients."""
        own = {id(p) for p in self.parameters}
        if any(id(p) in own for group in optimizer.param_groups for p in group["params"]):
            self._pending = False

    def _end(self, *_: Any) -> None:
        got = total(gradient_norms(self.parameters))
        self._pending = self._in_step = False
        known = {p: before for p, before in self._before.items() if before.shape == p.shape}
        changed = any(not torch.equal(p.detach(), before) for p, before in known.items())
        self.effects.append(Effect(self._made, got, changed))
        self._look_for_rounding()
        self.left_over += [] if self._zeroed is None else [not self._zeroed]
        self._zeroed = None
        self._counts = self._counters()
        self._measure({p: before for p, before in known.items() if before.ndim > 1} or known, got)

    def _look_for_rounding(self) -> None:
        """Try one more step of 16-bit weights in 32 bits, at a usual rate, and see which of it 16 bits would keep."""
        coarse = {p for p in self.parameters if p.dtype in HALF and p.grad is not None and not self._has_master(p)}
        if not coarse:
            return
        try:
            moved = self._step_in_32_bits()
        except Exception:  # of an optimizer that needs a closure, or weights of its own
            return
        asked = lost = 0
        for p, wide in moved:
            start = p.detach()
            goes = wide.detach() != start
            stays = int((goes & (wide.detach().to(p.dtype) == start)).sum())
            asked, lost = asked + int(goes.sum()), lost + stays
            if p in coarse and goes.any():
                self.lost.setdefault(p, []).append(stays / int(goes.sum()))
        self.lost_of_all += [lost / asked] if asked else []

    def _step_in_32_bits(self) -> list[tuple[Tensor, Tensor]]:
        """Return the weights beside copies in 32 bits that have made the next step, with the gradients of the last."""
        twin, pairs = copy.copy(self.optimizer), []
        twin.state, twin.param_groups = defaultdict(dict), []
        twin._optimizer_step_pre_hooks, twin._optimizer_step_post_hooks = OrderedDict(), OrderedDict()
        for group, rate in zip(self.optimizer.param_groups, self.rates, strict=True):
            copies = []
            for p in group["params"]:
                # .float() of what has 32 bits already is the weight itself.
                wide = p.detach().clone().float().requires_grad_()
                wide.grad = None if p.grad is None else p.grad.detach().clone().float()
                state = self.optimizer.state.get(p, {})
                twin.state[wide] = {key: widened(value) for key, value in state.items()}
                copies.append(wide)
                pairs.append((p, wide))
            twin.param_groups.append({**group, "params": copies, "lr": rate})
        twin.step()
        return pairs

    def _has_master(self, parameter: Tensor) -> bool:
        state = self.optimizer.state.get(parameter, {})
        kept = state.values() if isinstance(state, dict) else ()
        wide = (each for each in kept if isinstance(each, Tensor) and each.shape == parameter.shape)
        return any(each.dtype == torch.float32 and torch.equal(each.to(parameter.dtype), parameter) for each in wide)

    def _warming_up(self) -> float:
        """Return by which factor a schedule will raise the learning rate."""
        groups = [group for group in self.optimizer.param_groups if group.get("lr") is not None]
        rate = max((float(group["lr"]) for group in groups), default=0.0)
        start = max((float(group.get("initial_lr", group["lr"])) for group in groups), default=0.0)
        return max(start / rate, 1.0) if rate else 1.0

    def _measure(self, weights: dict[Tensor, Tensor], got: float) -> None:
        """Keep how far the step went, at the learning rate that a schedule starts from."""
        rates = [group["lr"] for group in self.optimizer.param_groups if group.get("lr") is not None]
        self.rate = max(map(float, rates), default=None)
        if self._made > 0:
            self.kept.append(got / self._made)
        size = total(gradient_norms(weights.values(), of_themselves=True))
        self._from_zero |= not size
        # Weights that begin near 0 are to grow; nn.Linear and convolutions begin with a variance of 1 / (3 fan-in).
        size = max(size, sum(len(p) / 3 for p in weights if p.ndim > 1) ** 0.5)
        if self._from_zero or not self.rate:  # what began at 0 has no size yet that a step could be held against
            return
        moved = total(gradient_norms([p.detach() - before for p, before in weights.items()], of_themselves=True))
        self.ratios.append(moved / size * self._warming_up())

    def _look_back(self) -> None:
        if self.effects and self.effects[-1].changed and self._before:
            same = all(
                p.shape == before.shape and torch.equal(p.detach(), before) for p, before in self._before.items()
            )
            self.effects[-1].put_back = same

    def _counters(self) -> dict[Tensor, float]:
        """Return how many steps the state has counted, of optimizers that count: torch's Adam and its like."""
        states = ((p, self.optimizer.state.get(p)) for p in self.parameters)
        return {p: float(state["step"]) for p, state in states if isinstance(state, dict) and "step" in state}


def widened(value: Any) -> Any:
    """Return a copy of a part of an optimizer's state, in 32 bits where it had 16."""
    if not isinstance(value, Tensor):
        return copy.copy(value)
    return value.detach().clone().float() if value.dtype in HALF else value.detach().clone()


def gradient_norms(parameters: Iterable[Tensor], of_themselves: bool = False) -> list[float | None]:
    """Return the norm of each parameter's gradient, None where there is none."""
    parameters = list(parameters)
    values = [dense(p if of_themselves else p.grad) for p in parameters]
    known = [value for value in values if value is not None]
    norms = iter([float(norm) for norm in torch._foreach_norm(known)] if known else [])
    return [None if value is None else next(norms) for value in values]


def dense(gradient: Tensor | None) -> Tensor | None:
    if gradient is None:
        return None
    gradient = gradient.detach()
    return gradient.coalesce().values() if gradient.is_sparse else gradient


def total(norms: Iterable[float | None]) -> float:
    return sum(norm**2 for norm in norms if norm is not None) ** 0.5
