import torch
from torch import Tensor
from torchmetrics import Metric

# Sums in float64 come out the same whatever the order and number of processes; MPS has no float64.
SUM_DTYPE = torch.float32 if torch.backends.mps.is_available() else torch.float64


class LossAndAccuracy(Metric):
    """Mean loss and top-1 accuracy over an epoch, in one update a step that never waits for the device.

    Under DDP the three sums are reduced once, in `compute`.
    """

    full_state_update = False

    def __init__(self) -> None:
        super().__init__()
        self.add_state("loss_sum", torch.zeros((), dtype=SUM_DTYPE), dist_reduce_fx="sum")
        self.add_state("correct", torch.zeros((), dtype=torch.int64), dist_reduce_fx="sum")
        self.add_state("count", torch.zeros((), dtype=torch.int64), dist_reduce_fx="sum")

    def update(self, loss: Tensor, logits: Tensor, labels: Tensor) -> None:
        """Add one batch: its mean loss (scalar), logits (B, C) and class indices (B,)."""
        self.loss_sum += loss.detach() * len(labels)
        self.correct += (logits.argmax(dim=1) == labels).sum()
        self.count += len(labels)

    def compute(self) -> dict[str, Tensor]:
        """Return `loss` and `accuracy` (0..1), scalars."""
        return {"loss": self.loss_sum / self.count, "accuracy": self.correct / self.count}
