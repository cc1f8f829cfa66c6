import time
from typing import Any

from torch import Tensor

from training_checklist.instruments import Example, HungRank, Ranks, SlowPreparation, Small, loader
from training_checklist.probe import Fix, Hit, Hits, Limits, Probe

LONGER = 6  # times as long, for a rank that is only slow


def detect(ranks: Ranks, limits: Limits) -> Hits:
    event = ranks.end
    if isinstance(event, SlowPreparation):
        yield Hit(
            f"prepare_data takes longer than {event.seconds:g} s",
            event.line.beside(rank=str(event.rank), note=event.calls),
            "the other ranks wait for it, as long as it takes",
            Fix(
                "this gives it more time; a download can be done once without this item",
                overrides=("checks.distributed.prepare_timeout=3600",),
            ),
        )
    elif isinstance(event, HungRank):
        yield Hit(
            f"rank {event.rank} has not come to {event.stage} within {event.seconds:g} s; "
            f"it is still after {event.after}",
            event.line.beside(rank=str(event.rank), note=event.calls or f"after {event.after}"),
            fix=Fix(
                "this gives it more time, if it is only slow; do less there, or the same on all ranks",
                overrides=(f"checks.distributed.{event.setting}={LONGER * event.seconds:g}",),
            ),
        )


class Sleeping(Small):
    seconds = 10.0

    def training_step(self, batch: Any, batch_idx: int) -> Tensor:
        time.sleep(self.seconds * self.global_rank * (batch_idx == 1))
        return super().training_step(batch, batch_idx)


PROBE = Probe(
    question="Does every rank reach the next step within the timeout, and does prepare_data end?",
    why="the others wait for it in the next collective, for half an hour unless something ends them",
    fix=Fix("do less there, or the same on all ranks"),
    detect=detect,
    aliases=("distributed/preparation-too-slow",),
    faulty=Example(Sleeping, lambda: loader(4), item={"timeout": 1}),
    healthy=Example(type("Slow", (Sleeping,), {"seconds": 0.1}), lambda: loader(4), item={"timeout": 1}),
)
