"""What the criteria of a step are given, in numbers."""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from training_checklist.engines.criteria import CriterionCall
from training_checklist.engines.graph import operation
from training_checklist.finding import Place
from training_checklist.lab.made_by import behind_views, made_by
from training_checklist.lab.shapes import Shape
from training_checklist.lab.shared import once
from training_checklist.lab.step import Step
from training_checklist.probe import CannotJudge, Threshold

LAYERS = {"Addmm", "Mm", "Convolution", "NativeBatchNorm"}  # as autograd calls what multiplies with weights
SUM = Threshold(
    0.01,
    "by which sums of probabilities may differ from 1, and logarithms of them from 0: log(softmax + 1e-5) of 1000 "
    "classes is off by 0.01, and the logits of an untrained network by ln C, which is 0.69 at least",
)


@dataclass
class CriterionInput:
    """What one call of a criterion is given.

    Args:
        name: of the function in torch.nn.functional, or "the difference of answers and targets".
        scores: the answers, in float32.
        dtype: that they had.
        made_by: the operation that made them, as autograd names it: "Softmax", "Relu"; "" where it is not known.
        dropped: where a dropout made them, None where none did.
        is_fixed: whether that was given what a layer of weights has made that do not learn, as of a loss of features.
    """

    name: str
    scores: Tensor
    target: Tensor
    dtype: torch.dtype
    made_by: str
    place: Place
    dropped: Place | None = None
    is_fixed: bool = False

    @property
    def shape(self) -> Shape:
        return tuple(self.scores.shape)

    @property
    def low(self) -> float:
        return float(self.scores.min())

    @property
    def high(self) -> float:
        return float(self.scores.max())

    @property
    def range(self) -> str:
        return f"{self.low:.4g} to {self.high:.4g}"

    @property
    def zeros(self) -> float:
        """Share of scores that are exactly 0."""
        return float((self.scores == 0).float().mean())

    def normalised(self, dim: int, tolerance: float) -> str:
        """Return "probabilities" or "log-probabilities" where the scores sum to 1 over `dim`, else ""."""
        scores = self.scores
        if not -scores.ndim <= dim < scores.ndim:
            return ""
        # A number of this type is off by eps / 2 of itself: probabilities by that in all, logarithms by ln C times it.
        rounding = torch.finfo(self.dtype).eps / 2 if self.dtype.is_floating_point else 0.0
        if scores.min() >= 0 and bool(((scores.sum(dim) - 1).abs() < tolerance + rounding).all()):
            return "probabilities"
        tolerance += rounding * float(torch.tensor(scores.shape[dim]).log())
        if scores.max() <= tolerance and bool((scores.logsumexp(dim).abs() < tolerance).all()):
            return "log-probabilities"
        return ""

    def over_samples(self, tolerance: float) -> str:
        """Return the same over dim 0, where there are several samples and several numbers of each."""
        return self.normalised(0, tolerance) if self.scores.ndim > 1 and min(self.shape[:2]) > 1 else ""


def criterion_inputs(step: Step) -> list[CriterionInput]:
    """Return what each criterion is given that training learns by, or that another step calls.

    Where the step has raised, it is the one that it was in.

    Differences of answers and targets that a loss is made of are criteria, too.

    Raises:
        CannotJudge: there is none that has finite numbers.
    """
    return _raised(step) if step.raised else _all(step)


@once
def _all(step: Step) -> list[CriterionInput]:
    calls = step.learned if step.name == "training_step" else step.criteria.calls
    found = [_measured(call, step) for call in (*calls, *step.differences.of_losses)]
    known = [each for each in found if each is not None]
    if not known:
        raise CannotJudge("finite scores are missing" if found else "the step calls no criterion of PyTorch")
    return known


def _raised(step: Step) -> list[CriterionInput]:
    found = _measured(step.criteria.calls[-1], step)
    return [] if found is None else [found]


def _measured(call: CriterionCall, step: Step) -> CriterionInput | None:
    scores = call.input.detach().float()
    if not scores.numel() or not scores.isfinite().all():
        return None
    node = behind_views(call.input.grad_fn)
    dropped = next((place for made, place in step.dropouts.made if behind_views(made) is node is not None), None)
    made, is_fixed = made_by(call.input), comes_of_fixed_weights(node)
    return CriterionInput(call.name, scores, call.target, call.input.dtype, made, call.place, dropped, is_fixed)


def comes_of_fixed_weights(node: Any) -> bool:
    """Whether an activation, by its node of autograd, was given what a layer has made whose weights do not learn."""
    given = node.next_functions[0][0] if node is not None and node.next_functions else None
    layer = behind_views(given)
    if layer is None or operation(layer) not in LAYERS:
        return False
    return not any(hasattr(behind_views(each), "variable") for each, _ in layer.next_functions)
