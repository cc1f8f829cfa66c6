import torch

from training_checklist.instruments import Example, Ranks, Small, loader
from training_checklist.probe import Fix, Hits, Limits, Probe, Threshold


def detect(ranks: Ranks, limits: Limits) -> Hits:
    what = "gradients of {} parameters differ between ranks before the optimizer's step"
    yield from ranks.gradients.hit(limits.gradient_roundings, what)


def moved(units: int, ranks: bool = True) -> Example:
    """Make one that moves a gradient by so many units of its rounding, on rank 1 or on all."""

    class Moving(Small):
        def on_after_backward(self) -> None:
            if self.global_rank or not ranks:
                gradient = self.head.weight.grad
                gradient += units * torch.finfo().eps * gradient.abs().max()

    return Example(Moving, lambda: loader(4))


PROBE = Probe(
    question="Are the gradients the same on all ranks when the optimizer steps?",
    why="each rank takes a step of its own: DDP has not averaged these gradients, or they were changed after that",
    fix=Fix("call the LightningModule, not the torch module inside a no_sync(); do not write to .grad on one rank"),
    detect=detect,
    thresholds={
        "gradient_roundings": Threshold(
            64,
            "in units of the dtype's rounding: most all-reduces hand every rank the same bits; where each rank adds up "
            "n terms in an order of its own, n - 1 roundings bound the difference; two batches' gradients are as far "
            "apart as they are large: 8e6 units in float32, 128 in bfloat16",
            faulty=moved(120),
            healthy=moved(40),
        )
    },
    faulty=moved(1_000_000),
    healthy=moved(1_000_000, ranks=False),
)
