from torchmetrics import ClasswiseWrapper, MeanMetric, MetricCollection
from torchmetrics.classification import MulticlassRecall

from training_checklist.instruments import MetricState, MetricStates, Validated, of_each
from training_checklist.probe import WARNING, Fix, Hit, Hits, Limits, Place, Probe


@of_each(lambda run: run.heard().states.values(), "no metric is computed after several batches")
def detect(metric: MetricState, limits: Limits) -> Hits:
    if metric.held == 0 and metric.batches > 1:
        yield Hit(
            f"{metric.path} is computed after {metric.batches} batches of {metric.stage}, and no update has come",
            Place(module=f"{metric.path} ({metric.type})"),
        )


class Averaged(Validated):
    updates = False

    def __init__(self) -> None:
        super().__init__()
        self.mean = MeanMetric()

    def validation_step(self, batch: list, batch_idx: int) -> None:
        loss = self.loss(self(batch[0]), batch[1])
        if self.updates:
            self.mean.update(loss)

    def on_validation_epoch_end(self) -> None:
        self.log("val/mean", self.mean.compute())
        self.mean.reset()


class Collected(Validated):
    """Has metrics in a collection, which updates one for all that share its states."""

    def __init__(self) -> None:
        super().__init__()
        each = ClasswiseWrapper(MulticlassRecall(4, average=None))
        self.all = MetricCollection({"recall": MulticlassRecall(4), "each": each, "mean": MeanMetric()})

    def validation_step(self, batch: list, batch_idx: int) -> None:
        self.all.update(preds=self(batch[0]), target=batch[1], value=1.0)

    def on_validation_epoch_end(self) -> None:
        self.log_dict(self.all.compute())
        self.all.reset()


class LoggedTwice(Averaged):
    """Logs a metric itself and, in a hook that resets it, its value: Lightning computes it once more."""

    updates = True

    def validation_step(self, batch: list, batch_idx: int) -> None:
        super().validation_step(batch, batch_idx)
        self.log("val/mean", self.mean)


PROBE = Probe(
    question="Is each metric updated with at least one batch before it is computed?",
    why="it returns the value of an empty state, such as 0, which says nothing",
    severity=WARNING,
    listener=MetricStates,
    detect=detect,
    fix=Fix("update it in each step, before reset() and after compute() of the epoch before"),
    faulty=Averaged,
    healthy=type("Updated", (Averaged,), {"updates": True}),
    also_healthy=(Collected, LoggedTwice),
)
