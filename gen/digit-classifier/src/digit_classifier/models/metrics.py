import torch
from torch import Tensor, nn
from torchmetrics import Metric

from .criterion_arguments import takes

# Sums in float64 come out the same whatever the order and number of processes; MPS has no float64.
SUM_DTYPE = torch.float32 if torch.backends.mps.is_available() else torch.float64


class LossAndAccuracy(Metric):
    """The criterion over an epoch and top-1 accuracy, in one update a step that never waits for the device.

    The loss is what the criterion would give for the whole epoch at once, whatever the size of the batches. Under DDP
    the sums are reduced once, in `compute`.
    """

    full_state_update = False
    loss_sum: Tensor
    weight: Tensor
    correct: Tensor
    count: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.is_sum = False
        self.add_state("loss_sum", torch.zeros((), dtype=SUM_DTYPE), dist_reduce_fx="sum")
        self.add_state("weight", torch.zeros((), dtype=SUM_DTYPE), dist_reduce_fx="sum")  # 0 where it is the count
        self.add_state("correct", torch.zeros((), dtype=torch.int64), dist_reduce_fx="sum")
        self.add_state("count", torch.zeros((), dtype=torch.int64), dist_reduce_fx="sum")

    def update(self, loss: Tensor, logits: Tensor, labels: Tensor, criterion: nn.Module) -> None:
        """Add one batch: its loss (scalar), logits (B, C, ...), class indices (B, ...), and what gave the loss.

        Labels that weigh nothing in the loss are not counted for the accuracy either.
        """
        loss, right, count = loss.detach(), logits.argmax(dim=1) == labels, labels.numel()
        total, weights = count, takes(criterion).weights(criterion, labels)
        if weights is not None:
            kept = weights.bool()
            right &= kept
            count = total = kept.sum()
            loss = loss.masked_fill(count == 0, 0)  # a mean over nothing is NaN
            if weights is not kept:
                total = weights.sum(dtype=SUM_DTYPE)
                self.weight.add_(total)
        is_sum = getattr(criterion, "reduction", "mean") == "sum"
        if self.is_sum is not is_sum:  # to set an attribute of a Metric takes longer than to add a number
            self.is_sum = is_sum
        self.loss_sum.add_(loss if is_sum else loss * total)
        self.correct.add_(right.sum())
        self.count.add_(count)

    def compute(self) -> dict[str, Tensor]:
        """Return `loss` and `accuracy` (0..1), scalars."""
        divisor = torch.where(self.weight > 0, self.weight, self.count)
        loss = self.loss_sum if self.is_sum else self.loss_sum / divisor
        return {"loss": loss, "accuracy": self.correct / self.count}
