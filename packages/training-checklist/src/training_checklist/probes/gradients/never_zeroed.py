from typing import Any

from training_checklist.instruments import FirstSteps, Small, several_steps
from training_checklist.probe import CannotJudge, Fix, Hit, Hits, Limits, Probe


def detect(steps: FirstSteps, limits: Limits) -> Hits:
    known = [each.left_over[1:] for each in steps.optimizers if len(each.left_over) > 2]
    if not known:
        raise CannotJudge("gradients of one step can only be left over in the next: three steps tell")
    for later in known:
        count, total = sum(later), len(later)
        # Most of them: two batches in a row that share a sum may be meant, which is one step in two.
        if 2 * count > total:
            often, of_all = ("never", "all") if count == total else ("rarely", str(count))
            yield Hit(
                f"gradients are {often} zeroed: in {of_all} of {total} steps those of the step before are still there",
                steps.zeroing(),
            )


class Adding(Small):
    every = 1000  # steps

    def optimizer_zero_grad(self, epoch: int, batch_idx: int, optimizer: Any) -> None:
        if batch_idx % self.every == 0:
            optimizer.zero_grad()


PROBE = Probe(
    question="Is zero_grad called between two optimizer steps?",
    why="a step follows the sum of the gradients of steps before it, which belong to other weights",
    fix=Fix("optimizer.zero_grad() before each backward pass; to accumulate: trainer.accumulate_grad_batches=4"),
    detect=detect,
    faulty=several_steps(Adding),
    healthy=several_steps(type("Every", (Adding,), {"every": 1})),
)
