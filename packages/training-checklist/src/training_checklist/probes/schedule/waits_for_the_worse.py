from collections.abc import Iterator
from typing import Any

from torch.optim.lr_scheduler import ReduceLROnPlateau
from torchmetrics import MeanMetric, MinMetric, R2Score

from training_checklist.instruments import (
    EarlyStopping,
    Monitored,
    TwoEpochs,
    better,
    scheduled,
    with_exchanged_targets,
)
from training_checklist.probe import CannotJudge, Fix, Hit, Hits, Limits, Place, Probe

WHY = {
    "ReduceLROnPlateau": "it lowers the learning rate for as long as training improves",
    "EarlyStopping": "it stops while training improves, and goes on for as long as it gets worse",
}


def detect(run: TwoEpochs, limits: Limits) -> Hits:
    reason = None
    for who, metric, mode in watchers(run):
        told = run.directions[metric] if metric in run.directions else better(metric)
        try:
            best = told or measured(run, metric)
        except CannotJudge as error:  # others may have names that tell
            reason = error
            continue
        if best not in (None, mode):
            better_or_worse = "better" if best == "max" else "worse"
            yield Hit(
                f"{who} has mode={mode}, but more of {metric} is {better_or_worse}{'' if told else shown(run, metric)}",
                Place(note=f"{who}(mode={mode!r}) on {metric}"),
                WHY.get(who),
                Fix(f'mode="{best}" where it is made'),
            )
    if reason is not None:
        raise reason


def watchers(run: TwoEpochs) -> Iterator[tuple[str, str, str]]:
    """Yield who waits for a metric, the metric, and the mode."""
    if not run.untold:  # else nobody steps a schedule but the module itself
        for config in run.trainer.lr_scheduler_configs:
            if config.reduce_on_plateau and config.monitor is not None and hasattr(config.scheduler, "mode"):
                yield type(config.scheduler).__name__, config.monitor, config.scheduler.mode
    yield from ((who, metric, mode) for who, metric, mode in run.modes if mode in ("min", "max"))


def measured(run: TwoEpochs, metric: str) -> str | None:
    known = with_exchanged_targets(run).get(metric)
    return None if known is None else known.better


def shown(run: TwoEpochs, metric: str) -> str:
    values = with_exchanged_targets(run)[metric]
    return f": {values.right:.4g} with the true targets, and {values.wrong:.4g} with those of other samples"


def waiting(mode: str) -> Any:
    return scheduled(lambda optimizer: ReduceLROnPlateau(optimizer, mode), "epoch", monitor="loss", strict=False)


class Stopped(Monitored):
    """Stops by a metric."""

    mode = "min"

    def configure_callbacks(self) -> list:
        return [EarlyStopping(self.monitor, mode=self.mode)]


class Explained(Stopped):
    """Stops by how much of the variance it explains, of which a metric of another name knows that more is better."""

    monitor = "val/fit"

    def __init__(self) -> None:
        super().__init__()
        self.explained = R2Score()

    def validation_step(self, batch: Any, batch_idx: int) -> None:
        self.explained.update(self(batch[0])[:, 0], batch[0][:, 0])
        self.log("val/fit", self.explained)


class RelativeError(MeanMetric):
    """An error that says nothing of its direction but its name."""


class NamedAccuracy(Stopped):
    """Stops by an error that is logged under the name of an accuracy."""

    monitor = "val/acc"

    def __init__(self) -> None:
        super().__init__()
        self.error = RelativeError()

    def validation_step(self, batch: Any, batch_idx: int) -> None:
        self.error.update((self(batch[0])[:, 0] - batch[0][:, 0]).abs())
        self.log("val/acc", self.error)


class PointDistance(MeanMetric):
    """An error that does not say so."""


class KeptAsAccuracy(Stopped):
    """Stops by the least error so far, in attributes that once held an accuracy."""

    monitor = "val/acc_best"

    def __init__(self) -> None:
        super().__init__()
        self.val_acc, self.val_acc_best = PointDistance(), MinMetric()

    def validation_step(self, batch: Any, batch_idx: int) -> None:
        self.val_acc.update((self(batch[0])[:, 0] - batch[0][:, 0]).abs())
        self.log("val/acc", self.val_acc)

    def on_validation_epoch_end(self) -> None:
        self.val_acc_best(self.val_acc.compute())
        self.log("val/acc_best", self.val_acc_best.compute())


PROBE = Probe(
    question="Is the mode of ModelCheckpoint, EarlyStopping and ReduceLROnPlateau right for their metric?",
    why="it takes the worst epoch for the best",
    fix=Fix("the other mode where it is made"),
    detect=detect,
    faulty=waiting("max"),
    healthy=waiting("min"),
    also_faulty=(Explained,),
    also_healthy=(type("Maximised", (Explained,), {"mode": "max"}), NamedAccuracy, KeptAsAccuracy),
)
