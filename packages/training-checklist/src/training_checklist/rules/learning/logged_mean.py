from collections.abc import Iterator
from typing import Any

from training_checklist.evidence.epochs import Logged, Series
from training_checklist.finding import FAILED, Fix, Place
from training_checklist.rule import Hit, Rule, Threshold

ROUNDING = 1e-5  # relative, of a sum of some hundred values in float32


def judge(logged: Logged, limits: Any) -> Iterator[Hit]:
    series = logged.epochs[-1]
    if not series or same(logged.value, mean(series)):
        return
    others = {"the mean over batches, whatever their size": mean([(each, 1) for each, _ in series])}
    if logged.kind == "loss":  # an accuracy is too easily the same by chance
        others["the value of the last batch alone"] = series[-1][0]
    if len(logged.epochs) > 1:
        others["the mean over all epochs so far"] = mean([pair for epoch in logged.epochs for pair in epoch])
    for meaning, other in others.items():
        if same(logged.value, other) and abs(other - mean(series)) > limits.min_bias * abs(mean(series)):
            sizes = f"{series[0][1]} to {series[-1][1]} samples" if series[0][1] != series[-1][1] else "equal size"
            yield Hit(
                f"{logged.name} is {logged.value:.4g}, {meaning}; over samples it is {mean(series):.4g} "
                f"({len(series)} batches of {sizes})",
                Place(source=f"self.log({logged.name!r}, ...) in validation"),
                fix=Fix(
                    f"self.log({logged.name!r}, value, batch_size=len(labels)), or a metric of torchmetrics that is "
                    f"reset each epoch"
                ),
            )
            return


def mean(series: Series) -> float:
    return sum(value * size for value, size in series) / max(sum(size for _, size in series), 1)


def same(one: float, other: float) -> bool:
    return abs(one - other) <= ROUNDING * max(abs(one), abs(other))


RULE = Rule(
    id="learning/logged-mean",
    item="learning",
    question="Is each logged epoch value the mean over all samples of the epoch?",
    why="runs and checkpoints are compared by a number that depends on how the data were cut",
    severity=FAILED,
    evidence=Logged,
    judge=judge,
    fix=Fix("log with batch_size=, or a metric of torchmetrics"),
    faulty=lambda: Logged("val/loss", 1.5, "loss", [[(1.0, 64), (2.0, 32)]]),
    healthy=lambda: Logged("val/loss", 4 / 3, "loss", [[(1.0, 64), (2.0, 32)]]),
    thresholds={
        "min_bias": Threshold(
            0.01,
            "relative; a smaller last batch makes 0.001 of a sound loss (1.799 for 1.797): no choice hangs on it",
        )
    },
)
