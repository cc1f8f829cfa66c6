import torch
from torchmetrics import MeanMetric

from training_checklist.instruments import MetricState, MetricStates, Validated, of_each
from training_checklist.probe import Fix, Hit, Hits, Limits, Place, Probe


@of_each(lambda run: run.heard().states.values(), "no metric is computed after several batches")
def detect(metric: MetricState, limits: Limits) -> Hits:
    if metric.is_mixed:
        yield Hit(
            f"{metric.path} holds {metric.known} updates when a {metric.stage} epoch begins, and {metric.batches} "
            f"batches add to them",
            Place(module=f"{metric.path} ({metric.type})"),
        )


class Averaged(Validated):
    resets = False

    def __init__(self) -> None:
        super().__init__()
        self.mean = MeanMetric()

    def validation_step(self, batch: list, batch_idx: int) -> None:
        self.mean.update(self.loss(self(batch[0]), batch[1]))

    def on_validation_epoch_end(self) -> None:
        self.log("val/mean", self.mean.compute())
        if self.resets:
            self.mean.reset()


class Counting(MeanMetric):
    """Sets its states back, and not what torchmetrics counts."""

    def reset(self) -> None:
        self.mean_value, self.weight = torch.zeros(()), torch.zeros(())


class ResetByItself(Averaged):
    resets = True

    def __init__(self) -> None:
        super().__init__()
        self.mean = Counting()


PROBE = Probe(
    question="Is each metric reset between epochs, and between training and validation?",
    why="its value mixes epochs, or training with validation",
    listener=MetricStates,
    detect=detect,
    fix=Fix("reset() it at the end of each epoch, and give each stage a metric of its own"),
    faulty=Averaged,
    healthy=type("Reset", (Averaged,), {"resets": True}),
    also_healthy=(ResetByItself,),
)
