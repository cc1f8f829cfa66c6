from typing import Any

from torch import Tensor

from training_checklist.instruments import Example, Ranks, Small, loader
from training_checklist.probe import WARNING, CannotJudge, Fix, Hit, Hits, Limits, Probe, Threshold

ROUNDING = 1e-3  # relative, of two losses: the mean of two ranks' losses is rounded otherwise than one over all samples


def detect(ranks: Ranks, limits: Limits) -> Hits:
    step = ranks.one_process
    if step.obstacle:
        raise CannotJudge(step.obstacle)
    if step.off <= limits.max_off:
        return
    if is_near(sum(step.losses) / len(step.losses), step.together):
        yield Hit(
            f"the loss of {len(step.losses)} ranks is that of all their samples in one process, {step.together:.4g}, "
            f"and its gradient is not: it leads elsewhere by {step.off:.2g} of its length",
            step.place,
            "a sum over the ranks lets no gradient through, so that its term counts for too little beside the others",
            Fix("take torch.distributed.nn.functional.all_reduce, or self.all_gather(x, sync_grads=True)"),
        )
    else:
        ranks = [rank for rank, pair in enumerate(zip(step.losses, step.alone, strict=True)) if not is_near(*pair)]
        yield Hit(
            f"the losses of the ranks' batches are {numbers(step.losses)}, and in one process {numbers(step.alone)}, "
            f"or {step.together:.4g} for all samples together; the averaged gradient leads elsewhere, by "
            f"{step.off:.2g} of its length",
            step.place.beside(rank=", ".join(map(str, ranks))),
        )


def numbers(losses: list[float]) -> str:
    return ", ".join(f"{loss:.4g}" for loss in losses)


def is_near(loss: float, other: float) -> bool:
    return abs(loss - other) <= ROUNDING * abs(other)


def by_rank(weight: float) -> Example:
    """Make one with so much of another term in the loss of rank 1."""

    class Ranked(Small):
        def training_step(self, batch: Any, batch_idx: int) -> Tensor:
            loss = super().training_step(batch, batch_idx)
            return loss + weight * self.trainer.global_rank * self.head.bias[0]

    return Example(Ranked, lambda: loader(4))


PROBE = Probe(
    question="Does the first step of all ranks have the gradient that one process has for the same samples?",
    why="the loss depends on the rank: labels or rows are moved on by it where nothing is gathered, so that ranks "
    "above 0 learn something else",
    severity=WARNING,
    fix=Fix("use the rank only where tensors of all ranks are gathered: self.all_gather(x, sync_grads=True)"),
    detect=detect,
    thresholds={
        "max_off": Threshold(
            0.01,
            "of its length: rounding makes 1e-6 of it in float32; a term that counts half, and is a fifth of the "
            "gradient, makes 0.04",
            faulty=by_rank(0.02),
            healthy=by_rank(0.008),
        )
    },
    faulty=by_rank(1.0),
    healthy=by_rank(0.0),
)
