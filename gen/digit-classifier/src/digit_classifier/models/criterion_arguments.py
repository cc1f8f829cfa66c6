"""What a criterion takes: any one gets logits and class indices in its own form. And how its mean weighs the labels."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import torch.nn.functional as F
from torch import Tensor, nn

Scores = Literal["logits", "log_probabilities", "probabilities"]
Targets = Literal["indices", "one_hot"]
Weights = Callable[[nn.Module, Tensor], Tensor | None]


def equal_weights(criterion: nn.Module, labels: Tensor) -> None:
    """The mean divides by the number of labels, or by a multiple of it."""


def class_weights(criterion: nn.Module, labels: Tensor) -> Tensor:
    """Return what each label weighs in the mean of CrossEntropyLoss or NLLLoss: a mask where all weigh the same."""
    kept = labels != criterion.ignore_index
    return kept if criterion.weight is None else criterion.weight[labels * kept] * kept


@dataclass(frozen=True)
class Takes:
    """What a criterion wants instead of logits (B, C, ...) and class indices (B, ...).

    Args:
        scores: what to make of the logits.
        targets: what to make of the class indices.
        weights: what the labels (B, ...) weigh in its mean, a tensor of their shape; labels of weight 0 are ignored.
    """

    scores: Scores = "logits"
    targets: Targets = "indices"
    weights: Weights = equal_weights


# From the torch.nn documentation of each class. What is not here takes logits and class indices, unless it has an
# attribute `takes`, or model.criterion_takes says otherwise. Of another package: TAKES[TheirLoss] = Takes(...)
TAKES: dict[type[nn.Module], Takes] = {
    nn.CrossEntropyLoss: Takes(weights=class_weights),
    nn.NLLLoss: Takes("log_probabilities", weights=class_weights),
    nn.KLDivLoss: Takes("log_probabilities", "one_hot"),
    nn.BCELoss: Takes("probabilities", "one_hot"),
} | dict.fromkeys(
    (nn.MSELoss, nn.L1Loss, nn.SmoothL1Loss, nn.HuberLoss, nn.BCEWithLogitsLoss, nn.MultiLabelSoftMarginLoss),
    Takes("logits", "one_hot"),
)


def takes(criterion: nn.Module) -> Takes:
    """Return what `criterion` takes: what it says itself, or what is known of the class whose `forward` it has.

    A subclass that changes nothing but its constructor takes what its parent does; one with a `forward` of its own may
    take anything.
    """
    own = getattr(criterion, "takes", None)
    if own is not None:
        return own
    owner = next(kind for kind in type(criterion).__mro__ if "forward" in vars(kind))
    return TAKES.get(owner, Takes())


def criterion_arguments(criterion: nn.Module, logits: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
    """Return (input, target) for `criterion` from logits (B, C, ...) and class indices (B, ...).

    A network that ends in log-softmax already is safe with `NLLLoss`: log-softmax changes nothing twice.
    """
    wanted = takes(criterion)
    if wanted.scores == "log_probabilities":
        scores = F.log_softmax(logits, dim=1)
    elif wanted.scores == "probabilities":
        scores = F.softmax(logits, dim=1)
    else:
        scores = logits
    if wanted.targets == "one_hot":
        return scores, F.one_hot(labels, logits.shape[1]).movedim(-1, 1).to(scores.dtype)  # (B, ...) -> (B, C, ...)
    return scores, labels
