"""What a criterion takes: any criterion gets logits and class indices in the form that it documents."""

import torch.nn.functional as F
from torch import Tensor, nn

# From the torch.nn documentation of each class. Everything else gets logits (B, C) and class indices (B,).
TAKES_LOG_PROBABILITIES = (nn.NLLLoss, nn.KLDivLoss)
TAKES_PROBABILITIES = (nn.BCELoss,)
TAKES_ONE_HOT = (
    nn.MSELoss,
    nn.L1Loss,
    nn.SmoothL1Loss,
    nn.HuberLoss,
    nn.BCELoss,
    nn.BCEWithLogitsLoss,
    nn.KLDivLoss,
    nn.MultiLabelSoftMarginLoss,
)


def criterion_arguments(criterion: nn.Module, logits: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
    """Return (input, target) for `criterion` from logits (B, C) and class indices (B,).

    A network that ends in log-softmax already is safe with `NLLLoss`: log-softmax changes nothing twice.
    """
    if isinstance(criterion, TAKES_LOG_PROBABILITIES):
        scores = F.log_softmax(logits, dim=1)
    elif isinstance(criterion, TAKES_PROBABILITIES):
        scores = F.softmax(logits, dim=1)
    else:
        scores = logits
    if isinstance(criterion, TAKES_ONE_HOT):
        return scores, F.one_hot(labels, logits.shape[1]).to(scores.dtype)  # (B,) -> (B, C)
    return scores, labels
