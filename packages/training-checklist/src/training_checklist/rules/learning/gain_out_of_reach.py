from collections.abc import Iterator
from typing import Any

from training_checklist.evidence.learning import LeastGain
from training_checklist.finding import WARNING, Fix, Place
from training_checklist.rule import Hit, Rule, Threshold


def judge(gain: LeastGain, limits: Any) -> Iterator[Hit]:
    if gain.of_range > limits.least_gain:
        yield Hit(
            f"EarlyStopping takes no change of {gain.metric} below {gain.least:.3g} for a gain, and it is "
            f"{gain.value:.3g} after two short epochs",
            Place(note=f"EarlyStopping(monitor={gain.metric!r}, min_delta={gain.least:g})"),
        )


RULE = Rule(
    id="learning/gain-out-of-reach",
    item="learning",
    question="Is min_delta of EarlyStopping small beside the metric that it monitors?",
    why="min_delta is the least gain since the best epoch, and no value to reach: training stops while it still learns",
    severity=WARNING,
    evidence=LeastGain,
    judge=judge,
    fix=Fix("min_delta=0, or a thousandth of the metric; for a value to reach there is stopping_threshold"),
    faulty=lambda: LeastGain("val/accuracy", 0.5, 0.61, True),
    healthy=lambda: LeastGain("val/loss", 0.01, 0.61, False),
    thresholds={
        "least_gain": Threshold(
            0.1, "of the range of a share, or of the loss: after the first epochs, ten such gains would be perfection"
        )
    },
)
