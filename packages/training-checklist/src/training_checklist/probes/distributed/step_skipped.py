from typing import Any

from torch import Tensor

from training_checklist.instruments import Example, Ranks, SkippedStep, Small, loader
from training_checklist.probe import Fix, Hit, Hits, Limits, Probe


def detect(ranks: Ranks, limits: Limits) -> Hits:
    event = ranks.end
    if isinstance(event, SkippedStep):
        yield Hit(
            f"rank {event.rank} skips batch {ranks.batch} after {event.steps} optimizer steps, because its "
            f"training_step returns None; {event.others}",
            event.step.beside(rank=str(event.rank), batch=ranks.batch),
        )


class Skipping(Small):
    """Has no loss of its third batch, or one of 0, on rank 1."""

    zero = False

    def training_step(self, batch: Any, batch_idx: int) -> Tensor | None:
        loss = super().training_step(batch, batch_idx)
        if batch_idx == 2 and self.global_rank == 1:
            return 0 * loss if self.zero else None
        return loss


PROBE = Probe(
    question="Does every rank take part in every optimizer step?",
    why="gradients are averaged in each backward pass: the ranks would disagree about the step from here on",
    fix=Fix("take the same way on all ranks: return a loss times 0 with all parameters in it, not None"),
    detect=detect,
    faulty=Example(Skipping, lambda: loader(4), item={"timeout": 3}),
    healthy=Example(type("Zero", (Skipping,), {"zero": True}), lambda: loader(4)),
)
