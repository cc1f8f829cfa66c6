from typing import Any

import torch

from training_checklist.instruments import Example, Ranks, Small, loader
from training_checklist.probe import Fix, Hits, Limits, Probe, Threshold


def detect(ranks: Ranks, limits: Limits) -> Hits:
    yield from ranks.weights.hit(limits.weight_roundings, "{} parameters differ between ranks")


def moved(units: int, ranks: bool = True) -> Example:
    """Make one that moves a weight by so many units of its rounding, on rank 1 or on all."""

    class Moving(Small):
        def on_train_batch_start(self, batch: Any, batch_idx: int) -> None:
            if self.global_step == 1 and (self.global_rank or not ranks):
                with torch.no_grad():
                    self.head.bias += units * torch.finfo().eps * self.head.bias.abs().max()

    return Example(Moving, lambda: loader(4))


PROBE = Probe(
    question="Are the weights the same on all ranks after every step?",
    why="each rank trains another model from here on: DDP averages gradients, and no weights",
    fix=Fix(
        "change weights in the same way on all ranks, without their rank or a random number, or send them: "
        "self.trainer.strategy.broadcast(...), torch.distributed.broadcast(parameter.data, src=0)"
    ),
    detect=detect,
    thresholds={
        "weight_roundings": Threshold(
            8,
            "in units of the dtype's rounding: weights and gradients were the same to the last bit, and an optimizer "
            "does some five elementwise operations with them, each of which rounds by half a unit; only a norm to clip "
            "by, summed over another number of threads, can differ before",
            faulty=moved(16),
            healthy=moved(5),
        )
    },
    faulty=moved(1_000_000),
    healthy=moved(1_000_000, ranks=False),
)
