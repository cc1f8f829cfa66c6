import math
from contextlib import suppress
from typing import Any

import torch
from torch import Tensor
from torchmetrics import Metric, R2Score

from training_checklist.instruments import MetricListener, TwoEpochs, Validated, leaves, same, several_steps
from training_checklist.probe import CannotJudge, Fix, Hit, Hits, Limits, Place, Probe, Threshold

ROUNDING = 1e-6  # of a correlation: float32 keeps 7 digits, and predictions that are as near have nothing to learn


class FirstUpdates(MetricListener):
    """Keeps where predictions and targets of each metric's first update come from, and what it makes of them.

    Attributes:
        found: by path: places in the batch of predictions and targets, "" where they are no part of it; the metric's
            values of the two as they are given and exchanged, none where it has none; how many numbers tell where
            predictions in another unit come from; the line and the metric.
    """

    def __init__(self, run: TwoEpochs) -> None:
        super().__init__(run)
        self.found: dict[str, tuple[list[str], list[float], float, Place]] = {}
        self.before_update(self._look)

    def _look(self, path: str, metric: Metric, given: dict[str, Any]) -> None:
        if path in self.found:
            return
        known, pair = leaves(self.batch), (given["preds"], given["target"])
        places = [next((place for place, leaf in known.items() if is_of(value, leaf)), "") for value in pair]
        if not places[1] and pair[1].is_floating_point():  # a column of it, say
            places[1] = next((place for place, leaf in known.items() if is_within(pair[1], leaf)), "")
        values, place = [], self.place(path, metric)
        if places[0] and not places[1]:
            with suppress(Exception):  # of a metric that takes them in one order only
                values = [value_of(metric, {**given, "preds": one, "target": two}) for one, two in (pair, pair[::-1])]
        is_plain = places[0] and same(pair[0], known[places[0]])
        self.found[path] = places, values, math.inf if is_plain else pair[0].numel(), place


def is_of(value: Any, leaf: Tensor) -> bool:
    """Whether a tensor has the numbers of a part of the batch, or those in another unit: scaled and shifted."""
    if not isinstance(value, Tensor) or value.numel() != leaf.numel():
        return False
    if same(value, leaf):
        return True
    if not value.is_floating_point() or not value.isfinite().all():
        return False
    pairs = torch.stack([value.detach().flatten().double(), leaf.flatten().double()])
    return bool(pairs.std(1).min() > 0) and 1 - float(torch.corrcoef(pairs)[0, 1].abs()) < ROUNDING


def is_within(value: Tensor, leaf: Tensor) -> bool:
    """Whether all numbers of a tensor stand in a part of the batch."""
    return leaf.dtype == value.dtype and leaf.device == value.device and bool(torch.isin(value.detach(), leaf).all())


def value_of(metric: Metric, given: dict[str, Any]) -> float:
    alone = metric.clone()
    alone.reset()
    alone.update(**given)
    return float(alone.compute())


def detect(run: TwoEpochs, limits: Limits) -> Hits:
    found = run.heard().found
    if not found:
        raise CannotJudge("no metric compares predictions with targets")
    for path, ((first, second), values, numbers, place) in found.items():
        if not first or second or numbers < limits.min_told:
            continue
        if not values:
            raise CannotJudge(f"{path} computes nothing from its arguments the other way round")
        value, exchanged = values
        if not math.isclose(value, exchanged, rel_tol=1e-6):  # more than rounding: float32 has 7 digits
            yield Hit(
                f"{path} is given {first} as the predictions, and what the network answers as the target: {value:.4g} "
                f"in this batch, and {exchanged:.4g} the other way round",
                place,
            )


class Scored(Validated):
    exchanged, unit = True, 1

    def __init__(self) -> None:
        super().__init__()
        self.score = R2Score()

    def validation_step(self, batch: list, batch_idx: int) -> None:
        given = self(batch[0])[:, 0], self.unit * batch[1].float()
        self.score.update(*(given[::-1] if self.exchanged else given))
        self.log("val/r2", self.score)


class Persisting(Scored):
    """Scores the last number that was seen against the first one of those to come."""

    def validation_step(self, batch: list, batch_idx: int) -> None:
        last, following = batch[1].float(), batch[0][:, 0]
        self(batch[0])
        self.score.update(last, following)
        self.log("val/r2", self.score)


Scaled = type("Scaled", (Scored,), {"unit": 100})


PROBE = Probe(
    question="Does each metric get predictions first, and targets second?",
    why="such a metric is another number when the two are exchanged, and looks as plausible",
    listener=FirstUpdates,
    detect=detect,
    fix=Fix("metrics of torchmetrics take (predictions, targets); name them: update(preds=..., target=...)"),
    thresholds={
        "min_told": Threshold(
            8,
            "numbers: of so few, any two tensors in other units may have the same differences by chance",
            faulty=several_steps(Scaled, 16),
            healthy=several_steps(Scaled, 4),
        )
    },
    faulty=Scored,
    healthy=type("Rightly", (Scored,), {"exchanged": False}),
    also_healthy=(Persisting,),
)
