"""Gradients as autograd has them, beside the slopes of what was computed."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from statistics import median
from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function, gradcheck
from torch.utils._pytree import tree_map

from training_checklist.engines.batches import is_dense, tensors
from training_checklist.engines.compared import in_full_precision
from training_checklist.engines.replay import call_step, isolated
from training_checklist.lab.shared import Subject, of_the_project
from training_checklist.lightning import LightningModule
from training_checklist.probe import CannotJudge

# (shift of the input, in its own scale; step of the numerical gradient). Differences must show in all of them: a kink
# is left by a shift, and the noise of a function that computes in float32 inside by a longer step.
TRIALS = ((0.0, 1e-6), (1e-2, 1e-6), (2e-2, 1e-3))
OF_MANY = (0.0, 1e-9)  # along all of many numbers, as of a spectrogram near 0, a longer step crosses many kinks
DIRECTIONS = 5  # random; their median is not moved by two that cross a kink


@dataclass(frozen=True)
class Slopes:
    """What gradient and slope are along random directions, at one point after the other until they agree.

    Args:
        trials: (analytical, numerical) of each direction, at each point where they do not agree.
        agree: whether they do at the last point.
    """

    trials: Sequence[Sequence[tuple[float, float]]]
    agree: bool

    def differ(self, by: float) -> bool:
        """Whether they differ at every point, by more than a share `by` of the larger."""
        return not self.agree and all(max(map(apart, each)) > by for each in self.trials)

    def __str__(self) -> str:
        analytical, numerical = max(self.trials[0], key=apart)
        times = f" ({analytical / numerical:.3g} times it)" if numerical else ""
        return f"along a random direction {analytical:.6g} analytically{times}, {numerical:.6g} numerically"


@dataclass
class CheckedStep(Subject):
    """A training step of which parts are compared with their slopes.

    Args:
        samples: of the batch, to be quick; all of it where the step does not take fewer.
        max_values: numbers in an input up to which every one of them is checked; beyond, random directions are.
        atol: allowed absolute difference.
        rtol: allowed relative difference.
        said: what was checked and is right, or could not be, in words.
    """

    pl_module: LightningModule
    batch: Any
    samples: int
    max_values: int
    atol: float
    rtol: float
    said: list[str] = field(default_factory=list)

    def watched_by(self, watching: Callable[[], AbstractContextManager[Any]]) -> Any:
        """Run the step inside a context; return the batch that it took.

        Raises:
            CannotJudge: it cannot be run once more.
        """
        # What the first samples cannot be cut from needs all of them: graphs, and weights that the criterion keeps.
        whole = in_full_precision(self.batch, self.pl_module)
        for batch in (first(whole, self.samples), whole):
            try:
                with of_the_project("training_step, run once more,"), isolated(self.pl_module), watching():
                    call_step(self.pl_module, "training_step", batch)
                return batch
            except CannotJudge as error:  # the step itself comes next, and raises it where it is the project's own
                reason = error
        raise reason

    def slopes(self, call: Callable[[Tensor], Any], value: Tensor, what: str) -> Slopes:
        """Compare the gradient of a function of the project with its slope, around a value.

        Raises:
            CannotJudge: it has none, or raises.
        """
        trials, constant, are_noise = [], None, False
        for shift, step in (*TRIALS, *([OF_MANY] if value.numel() > self.max_values else [])):
            generator = torch.Generator().manual_seed(0)
            noise = torch.rand(value.shape, generator=generator, dtype=value.dtype).to(value.device)
            # Away from 0, so that what is defined on one side of it only still is.
            moved = (value + shift * noise * (value + value.abs().mean() * value.sign())).requires_grad_()
            with of_the_project(f"{what} in float64"):  # for which it may not have been written
                try:
                    found = along_directions(call, moved, step)
                except CannotJudge as error:  # or a step too small for a loss that a target in float32 makes one
                    constant = error
                    continue
                if moved.numel() > self.max_values:
                    # Not gradcheck's fast_mode, which allows atol times the number of values: a factor 2 passes.
                    agree = median(map(apart, found)) <= 10 * self.rtol
                else:
                    tolerances = {"atol": self.atol, "rtol": self.rtol, "nondet_tol": self.atol, "eps": step}
                    # Training gives every output a gradient.
                    options = {"raise_exception": False, "check_undefined_grad": False}
                    agree = gradcheck(call, (moved,), **tolerances, **options)
                if not agree and (shift, step) == TRIALS[-1]:
                    are_noise = noisy(found, along_directions(call, moved, 2 * step))
            if agree:
                return Slopes(trials, agree=True)
            trials.append(found)
        if are_noise:
            raise CannotJudge("its slope depends on the length of the step: it computes in float32, or has many kinks")
        if constant is not None:
            raise constant
        return Slopes(trials, agree=False)


def along_directions(call: Callable[[Tensor], Any], value: Tensor, step: float) -> list[tuple[float, float]]:
    """Return (analytical, numerical) slopes along random directions.

    Raises:
        CannotJudge: it has none, or is the identity.
    """
    generator = torch.Generator().manual_seed(1)
    results = [result for result in tensors(call(value)) if result.requires_grad]
    # On both sides of 0: what is cut off on one of them only is no identity.
    is_meant = not results or all(returned(call, each) for each in (value, -value))
    weights = [torch.randn(each.shape, generator=generator, dtype=torch.float64).to(each.device) for each in results]

    def total(at: Tensor) -> Tensor:
        return sum((each * weight).sum() for each, weight in zip(tensors(call(at)), weights, strict=True))

    slopes = []
    if not is_meant:
        [gradient] = torch.autograd.grad(total(value), value, materialize_grads=True)
        for _ in range(DIRECTIONS):
            direction = torch.randn(value.shape, generator=generator, dtype=torch.float64).to(value.device)
            way = step * direction
            ahead, behind = (total((value + each).detach().requires_grad_()).detach() for each in (way, -way))
            slopes.append((float((gradient * direction).sum()), float(ahead - behind) / (2 * step)))
    finite = all(abs(slope) < float("inf") for pair in slopes for slope in pair)
    if not finite or not any(numerical for _, numerical in slopes):
        raise CannotJudge(
            "nothing is computed from what it is given (a network may return its loss itself), or only a constant: "
            "there is no slope to compare with"
        )
    return slopes


def noisy(slopes: list[tuple[float, float]], longer: list[tuple[float, float]]) -> bool:
    """Whether slopes differ from those of longer steps by half as much as from the gradient, or more."""
    between = [apart((one, other)) for (_, one), (_, other) in zip(slopes, longer, strict=True)]
    return 2 * max(between) >= max(map(apart, slopes))


def returned(call: Callable[[Tensor], Any], value: Tensor) -> bool:
    """Whether a function gives back what it is given."""
    value = value.detach().requires_grad_()
    return any(result.shape == value.shape and torch.equal(result, value) for result in tensors(call(value)))


def apart(slopes: tuple[float, float]) -> float:
    """Return how far two slopes are apart, relative to the larger one."""
    return abs(slopes[0] - slopes[1]) / max(*map(abs, slopes), 1e-9)


@contextmanager
def around_apply(call: Callable[..., Any]) -> Iterator[None]:
    """Inside, applying an autograd function is `call(apply, function, args)`."""
    own = Function.__dict__["apply"]
    Function.apply = classmethod(lambda cls, *args: call(own.__get__(None, cls), cls, args))
    try:
        yield
    finally:
        Function.apply = own


def first(batch: Any, samples: int) -> Any:
    """Return the first samples of a batch."""

    def cut(part: Any) -> Any:
        return part[:samples] if isinstance(part, Tensor) and part.ndim and is_dense(part) else part

    return tree_map(cut, batch)


def double(value: Any) -> Any:
    """Return detached copies in float64 of all floating tensors in nested containers."""
    return tree_map(lambda part: part.detach().clone().double() if is_float(part) else part, value)


def is_float(value: Any) -> bool:
    return isinstance(value, Tensor) and value.is_floating_point()
