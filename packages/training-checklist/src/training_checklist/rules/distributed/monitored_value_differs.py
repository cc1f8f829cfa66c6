from collections.abc import Iterator
from typing import Any

from training_checklist.evidence.ranks import MonitoredValue
from training_checklist.finding import FAILED, REMARK, Fix, Place
from training_checklist.rule import Hit, Rule, Threshold


def judge(value: MonitoredValue, limits: Any) -> Iterator[Hit]:
    values = [each for each in value.values if each == each]
    if not values or not max(values) - min(values) > limits.monitored_rounding * max(map(abs, values)):
        return
    told = ", ".join(f"{each:.6g} on rank {rank}" for rank, each in enumerate(value.values))
    yield Hit(
        f"{value.name}, which {value.watcher} monitors, differs between ranks: {told}",
        Place(
            rank=f"0 to {len(value.values) - 1}", source=f"self.log({value.name!r}, ...)", note="without sync_dist=True"
        ),
        severity=None if value.asked else REMARK,
        why=None if value.asked else "this project runs in one process; in several, each would judge by its own part",
        fix=Fix(
            f"self.log({value.name!r}, value, sync_dist=True), or log a metric of torchmetrics, which reduces itself"
        ),
    )


RULE = Rule(
    id="distributed/monitored-value-differs",
    item="distributed",
    question="Is each metric that a callback monitors the same on all ranks?",
    why="epochs are chosen by a part of the data, and ranks may decide differently",
    severity=FAILED,
    evidence=MonitoredValue,
    judge=judge,
    fix=Fix("log it with sync_dist=True"),
    faulty=lambda: MonitoredValue("val/loss", "EarlyStopping", [0.51, 0.52]),
    healthy=lambda: MonitoredValue("val/loss", "EarlyStopping", [0.51, 0.51]),
    thresholds={
        "monitored_rounding": Threshold(
            1e-5,
            "relative: a reduced value is the same to the last bit; a metric over gathered states may add up 10,000 of "
            "them in another order: 6e-8, half a float32 unit, by the square root of that; means over two halves of a "
            "validation set are 1e-3 and more apart",
        )
    },
)
