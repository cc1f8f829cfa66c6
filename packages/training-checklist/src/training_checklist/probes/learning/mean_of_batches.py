from math import isfinite

import torch

from training_checklist.instruments import Example, MeanOfBatches, Validated, fed, of_each
from training_checklist.probe import WARNING, Fix, Hit, Hits, Limits, Probe, Threshold


@of_each(lambda run: run.epochs.means.found(), "validation logs no value that is made of all samples of a batch")
def detect(value: MeanOfBatches, limits: Limits) -> Hits:
    apart = abs(value.mean - value.whole)
    if isfinite(apart) and apart > limits.max_apart * abs(value.whole):
        yield Hit(
            f"{value.name} is the mean of what {value.function} makes of each of {value.batches} batches, "
            f"{value.mean:.4g}; of all samples it makes {value.whole:.4g}",
            value.place,
        )


def rooted(more: float) -> Example:
    """Log the root of an error of two batches, of which the second has so much more."""

    class Rooted(Validated):
        def validation_step(self, batch: list, batch_idx: int) -> None:
            self.log("val/rmse", torch.sqrt(torch.tensor(1 + more * batch_idx)), batch_size=len(batch[1]))

    return fed(Rooted, 16)


PROBE = Probe(
    question="Is each validation metric computed from all samples, and not averaged over batches?",
    why="a mean is right of errors and of shares of right answers; an F1 score, an area, a root or a perplexity of "
    "batches has another mean than the whole, which changes with their size and order",
    severity=WARNING,
    detect=detect,
    fix=Fix(
        "log the metric itself, self.log(name, metric), after metric.update(...); or collect answers, and compute once "
        "in on_validation_epoch_end"
    ),
    thresholds={
        "max_apart": Threshold(0.01, "relative: training runs are told apart by less than a hundredth", factor=1.5)
    },
    faulty=rooted(1.0),
    healthy=rooted(0.7),
)
