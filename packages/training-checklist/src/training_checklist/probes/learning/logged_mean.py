import torch
from torch.nn import functional

from training_checklist.instruments import Example, Logged, Series, Validated, fed, of_each
from training_checklist.probe import Fix, Hit, Hits, Limits, Place, Probe, Threshold

ROUNDING = 1e-5  # relative, of a sum of some hundred values in float32


@of_each(lambda run: run.epochs.means_of_epochs(), "validation logs no loss and no accuracy of its batches")
def detect(logged: Logged, limits: Limits) -> Hits:
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


def logged(more: float) -> Example:
    """Log the mean over two batches, of 24 and of 8 samples, of which the second has so much more loss."""

    class Logging(Validated):
        def validation_step(self, batch: list, batch_idx: int) -> None:
            loss = functional.l1_loss(torch.full((len(batch[1]),), 1 + more * batch_idx), torch.zeros(len(batch[1])))
            self.log("val/loss", loss, batch_size=1)

    return fed(Logging, 24)


PROBE = Probe(
    question="Is each logged epoch value the mean over all samples of the epoch?",
    why="runs and checkpoints are compared by a number that depends on how the data were cut",
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
