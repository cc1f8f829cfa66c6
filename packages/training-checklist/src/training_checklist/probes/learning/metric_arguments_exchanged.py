from math import isclose

from torchmetrics import R2Score

from training_checklist.instruments import MetricArguments, Validated, of_each
from training_checklist.probe import CannotJudge, Fix, Hit, Hits, Limits, Probe


@of_each(lambda run: run.epochs.metrics.arguments.values(), "no metric compares predictions with targets")
def detect(metric: MetricArguments, limits: Limits) -> Hits:
    if not metric.first or metric.second:
        return
    if metric.value is None or metric.exchanged is None:
        raise CannotJudge(f"{metric.path} computes nothing from its arguments the other way round")
    if isclose(metric.value, metric.exchanged, rel_tol=1e-6):  # more than rounding: float32 has 7 digits
        return
    yield Hit(
        f"{metric.path} is given {metric.first} as the predictions, and what the network answers as the target: "
        f"{metric.value:.4g} in this batch, and {metric.exchanged:.4g} the other way round",
        metric.place.beside(module=f"{metric.path} ({metric.type})"),
    )


class Scored(Validated):
    exchanged = True

    def __init__(self) -> None:
        super().__init__()
        self.score = R2Score()

    def validation_step(self, batch: list, batch_idx: int) -> None:
        given = self(batch[0])[:, 0], batch[1].float()
        self.score.update(*(given[::-1] if self.exchanged else given))
        self.log("val/r2", self.score)


PROBE = Probe(
    question="Does each metric get predictions first, and targets second?",
    why="such a metric is another number when the two are exchanged, and looks as plausible",
    detect=detect,
    fix=Fix("metrics of torchmetrics take (predictions, targets); name them: update(preds=..., target=...)"),
    faulty=Scored,
    healthy=type("Rightly", (Scored,), {"exchanged": False}),
)
