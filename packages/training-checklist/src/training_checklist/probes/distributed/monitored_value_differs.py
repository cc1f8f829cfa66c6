from typing import Any

from training_checklist.instruments import EarlyStopping, Example, Ranks, Small, loader
from training_checklist.probe import CannotJudge, Fix, Hit, Hits, Limits, Place, Probe, Threshold


def detect(ranks: Ranks, limits: Limits) -> Hits:
    if not ranks.monitored:
        raise CannotJudge("no callback and no lr_scheduler monitors a number that is logged")
    for value in ranks.monitored:
        values = [each for each in value.values if each == each]
        if values and max(values) - min(values) > limits.monitored_rounding * max(map(abs, values)):
            told = ", ".join(f"{each:.6g} on rank {rank}" for rank, each in enumerate(value.values))
            log = f"self.log({value.name!r}, "
            yield Hit(
                f"{value.name}, which {value.watcher} monitors, differs between ranks: {told}",
                Place(rank=f"0 to {len(value.values) - 1}", source=f"{log}...)", note="not reduced over ranks"),
                fix=Fix(f"{log}value, sync_dist=True), without rank_zero_only, or log a metric of torchmetrics"),
            )


def logging(apart: float) -> Example:
    """Make one that logs values which are so far apart, relative to them."""

    class Logging(Small):
        def validation_step(self, batch: Any, batch_idx: int) -> None:
            self.log("val/loss", 1 + apart * self.global_rank, sync_dist=False)

    stopping = EarlyStopping("val/loss", check_on_train_epoch_end=False)
    return Example(Logging, lambda: loader(4), trainer={"callbacks": [stopping]})


PROBE = Probe(
    question="Is each metric that a callback monitors the same on all ranks?",
    why="epochs are chosen by a part of the data, and ranks may decide differently",
    fix=Fix("log it with sync_dist=True"),
    detect=detect,
    thresholds={
        "monitored_rounding": Threshold(
            1e-5,
            "relative: a reduced value is the same to the last bit; a metric over gathered states may add up 10,000 of "
            "them in another order: 6e-8, half a float32 unit, by the square root of that; means over two halves of a "
            "validation set are 1e-3 and more apart",
            faulty=logging(2e-5),
            healthy=logging(5e-6),
        )
    },
    faulty=logging(0.1),
    healthy=logging(0.0),
)
