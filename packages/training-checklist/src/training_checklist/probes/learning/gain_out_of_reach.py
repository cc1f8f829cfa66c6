from pytorch_lightning.callbacks import EarlyStopping
from torch import Tensor

from training_checklist.instruments import TwoEpochs, Validated, better
from training_checklist.probe import WARNING, CannotJudge, Fix, Hit, Hits, Limits, Place, Probe, Threshold


def detect(run: TwoEpochs, limits: Limits) -> Hits:
    values = run.trainer.callback_metrics
    known = {name: least for name, least in run.least_gains.items() if name in values and values[name].numel() == 1}
    if not known:
        raise CannotJudge("EarlyStopping waits for no metric that is logged")
    for metric, least in known.items():
        value = float(values[metric])
        if value < 0:  # a likelihood, say, which goes on falling: it has no best value to measure gains by
            continue
        is_share = better(metric) == "max" and 0 <= value <= 1
        if least > limits.least_gain * (1.0 if is_share else max(abs(value), 1e-12)):
            yield Hit(
                f"EarlyStopping takes no change of {metric} below {least:.3g} for a gain, and it is {value:.3g} after "
                "two short epochs",
                Place(note=f"EarlyStopping(monitor={metric!r}, min_delta={least:g})"),
            )


class Monitored(Validated):
    min_delta = 0.2

    def training_step(self, batch: list, batch_idx: int) -> Tensor:
        loss = super().training_step(batch, batch_idx)
        self.log("train/loss", loss)
        return loss

    def validation_step(self, batch: list, batch_idx: int) -> None:
        self.log("val/loss", self.loss(self(batch[0]), batch[1]))

    def configure_callbacks(self) -> list:
        return [EarlyStopping("val/loss", min_delta=self.min_delta)]


class OfLikelihood(Monitored):
    """Monitors what may be of either sign."""

    def validation_step(self, batch: list, batch_idx: int) -> None:
        self.log("val/loss", self.loss(self(batch[0]), batch[1]) - 3)


PROBE = Probe(
    question="Is min_delta of EarlyStopping small compared with the metric that it monitors?",
    why="min_delta is the least gain since the best epoch, and no value to reach: training stops while it still learns",
    severity=WARNING,
    detect=detect,
    fix=Fix("min_delta=0, or a thousandth of the metric; for a value to reach there is stopping_threshold"),
    thresholds={
        "least_gain": Threshold(
            0.1,
            "of the range of a share, or of the loss: after the first epochs, ten such gains would be perfection",
            factor=2.0,
        )
    },
    faulty=Monitored,
    healthy=type("Small gain", (Monitored,), {"min_delta": 0.1}),
    also_healthy=(OfLikelihood,),
)
