"""What a criterion is given, in numbers."""

import torch
from torch import Tensor

from training_checklist.engines.criteria import CriterionCall
from training_checklist.engines.dropouts import DropoutCalls
from training_checklist.evidence.network import CriterionInput
from training_checklist.experiments.trace.made_by import behind_views, made_by

# Of sums of probabilities, which must be 1, and of their logarithms, 0. log(softmax + 1e-5) of 1000 classes is off by
# 0.01; the logits of an untrained network are off by ln C, which is 0.69 at least.
TOLERANCE = 0.01


def measured(call: CriterionCall, dropouts: DropoutCalls) -> CriterionInput | None:
    """Return what a call was given, or None where its numbers mean nothing."""
    scores, shape = call.input.detach().float(), tuple(call.input.shape)
    found = CriterionInput(call.name, shape, tuple(call.target.shape), place=call.place)
    if not scores.numel() or not scores.isfinite().all():
        return None
    found.low, found.high, found.made_by = float(scores.min()), float(scores.max()), made_by(call.input)
    node = behind_views(call.input.grad_fn)
    found.dropped = next((place for made, place in dropouts.made if behind_views(made) is node is not None), None)
    if call.target.is_floating_point() and call.target.shape == call.input.shape:
        found.below, found.above = (float(each.float().mean()) for each in (call.target < 0, call.target > 1))
    found.zeros = float((scores == 0).float().mean())
    if scores.ndim > 1:
        tolerance = TOLERANCE + 4 * torch.finfo(call.input.dtype).eps if call.input.is_floating_point() else TOLERANCE
        found.over_classes, found.over_last = normalised(scores, 1, tolerance), normalised(scores, -1, tolerance)
        if len(scores) > 1 and scores.shape[1] > 1:
            found.over_samples = normalised(scores, 0, tolerance)
    return found


def normalised(scores: Tensor, dim: int, tolerance: float) -> str:
    """Return "probabilities" or "log-probabilities" where the scores sum to 1 over `dim`, else ""."""
    if scores.min() >= 0 and bool(((scores.sum(dim) - 1).abs() < tolerance).all()):
        return "probabilities"
    if scores.max() <= tolerance and bool((scores.logsumexp(dim).abs() < tolerance).all()):
        return "log-probabilities"
    return ""
