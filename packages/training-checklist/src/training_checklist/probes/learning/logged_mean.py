from collections import defaultdict
from typing import Any

import torch
from torch.nn import functional

from training_checklist.instruments import (
    Call,
    Criteria,
    Example,
    MetricStates,
    Sums,
    TwoEpochs,
    Validated,
    batch_size,
    several_steps,
)
from training_checklist.lightning import LightningModule, Trainer
from training_checklist.probe import CannotJudge, Fix, Hit, Hits, Limits, Place, Probe, Threshold

ROUNDING = 1e-5  # relative, of a sum of some hundred values in float32
Series = list[tuple[float, int]]  # a batch's value and its number of samples


class BatchValues(MetricStates):
    """Keeps loss and accuracy of each batch of validation, beside what is logged at the end of the last epoch.

    Attributes:
        epochs: by epoch, the series of "loss" and "accuracy".
        logged: name, kind of the series, and value.
        hooks: that log a name.
    """

    def __init__(self, run: TwoEpochs) -> None:
        super().__init__(run)
        self.criteria = Criteria()
        self.epochs: list[dict[str, Series]] = []
        self.logged: dict[tuple[str, str], float] = {}
        self.hooks: dict[str, str] = {}

    def before(self, call: Call) -> None:
        self.criteria.before(call)

    def after(self, call: Call) -> None:
        self.criteria.after(call)

    def on_validation_epoch_start(self, *_: Any) -> None:
        self.epochs.append(defaultdict(list))

    def on_validation_batch_start(self, *given: Any) -> None:
        super().on_validation_batch_start(*given)
        self.criteria.calls.clear()

    def on_validation_batch_end(
        self, trainer: Trainer, pl_module: LightningModule, outputs: Any, batch: Any, *_: int
    ) -> None:
        size, calls = batch_size(batch), self.criteria.calls
        if size is None:
            return
        if len(calls) == 1 and calls[0].result is not None and calls[0].result.ndim == 0:
            self.epochs[-1]["loss"].append((float(calls[0].result), size))
        call = self.criteria.classification
        if call is not None and call.accuracy is not None and len(call.target) == size:
            self.epochs[-1]["accuracy"].append((call.accuracy, size))

    def on_validation_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        if len(trainer.num_val_batches) > 1:
            return
        results = trainer.fit_loop.epoch_loop.val_loop._results
        self.hooks |= {result.meta.name: result.meta.fx for result in results.values()}
        for name in self.hooks.keys() & set(trainer.callback_metrics):
            value = trainer.callback_metrics[name]
            for kind in self.epochs[-1] if value.numel() == 1 else ():
                if kind == "loss" or "acc" in name.lower():
                    self.logged[name, kind] = float(value)


def detect(run: TwoEpochs, limits: Limits) -> Hits:
    seen = run.heard()
    mixes = any(state.is_mixed for state in seen.states.values())  # which is another question's
    logged = {key: value for key, value in seen.logged.items() if key[1] == "loss" or not mixes}
    if not logged:
        raise CannotJudge("validation logs no loss and no accuracy of its batches")
    sums = run.epochs.made.get(Sums)
    mixes_epochs = sums is not None and any(sums.kept())  # which is another question's, too
    for (name, kind), value in logged.items():
        epochs = [epoch[kind] for epoch in seen.epochs]
        series = epochs[-1]
        if not series or same(value, mean(series)):
            continue
        others = {"the mean over batches, whatever their size": mean([(each, 1) for each, _ in series])}
        if kind == "loss":  # an accuracy is too easily the same by chance
            others["the value of the last batch alone"] = series[-1][0]
        if len(epochs) > 1 and not mixes_epochs:
            others["the mean over all epochs so far"] = mean([pair for epoch in epochs for pair in epoch])
        far = {
            meaning: other
            for meaning, other in others.items()
            if same(value, other) and abs(other - mean(series)) > limits.min_bias * abs(mean(series))
        }
        for meaning in [*far][:1]:
            sizes = f"{series[0][1]} to {series[-1][1]} samples" if series[0][1] != series[-1][1] else "equal size"
            hook = seen.hooks[name]
            weighted = f"self.log({name!r}, value, batch_size=len(labels)), or " if hook.endswith("_step") else ""
            yield Hit(
                f"{name} is {value:.4g}, {meaning}; over samples it is {mean(series):.4g} "
                f"({len(series)} batches of {sizes})",
                Place(source=f"self.log({name!r}, ...) in {hook}"),
                fix=Fix(
                    f"{weighted}a metric of torchmetrics that is reset each epoch: "
                    "MeanMetric.update(value, weight=len(labels))"
                ),
            )


def mean(series: Series) -> float:
    return sum(value * size for value, size in series) / max(sum(size for _, size in series), 1)


def same(one: float, other: float) -> bool:
    return abs(one - other) <= ROUNDING * max(abs(one), abs(other))


def logged(more: float) -> Example:
    """Log the mean over two batches, of 24 and of 8 samples, of which the second has so much more loss."""

    class Logging(Validated):
        def validation_step(self, batch: list, batch_idx: int) -> None:
            loss = functional.l1_loss(torch.full((len(batch[1]),), 1 + more * batch_idx), torch.zeros(len(batch[1])))
            self.log("val/loss", loss, batch_size=1)

    return several_steps(Logging, 24)


PROBE = Probe(
    question="Is each logged epoch value the mean over all samples of the epoch?",
    why="runs and checkpoints are compared by a number that depends on how the data were cut",
    listener=BatchValues,
    detect=detect,
    fix=Fix("log with batch_size=, or a metric of torchmetrics"),
    thresholds={
        "min_bias": Threshold(
            0.01,
            "relative; a smaller last batch makes 0.001 of a sound loss (1.799 for 1.797): no choice hangs on it",
        )
    },
    faulty=logged(0.08),
    healthy=logged(0.03),
)
