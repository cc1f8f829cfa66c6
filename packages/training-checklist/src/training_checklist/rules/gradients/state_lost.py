from collections.abc import Iterator
from typing import Any

from training_checklist.evidence.gradients import OptimizerEffects
from training_checklist.finding import FAILED, Fix, Place
from training_checklist.rule import CannotJudge, Hit, Rule


def judge(seen: OptimizerEffects, limits: Any) -> Iterator[Hit]:
    if not any(of for _, of in seen.forgotten):
        raise CannotJudge(f"{seen.optimizer} counts no steps in its state")
    lost = [(back, of) for back, of in seen.forgotten if back]
    if lost:
        back, of = lost[0]
        yield Hit(
            f"{seen.optimizer} loses its state: between two steps that of {back} of {of} parameters is thrown away "
            f"or set back, {len(lost)} times of {len(seen.forgotten)}",
            Place(note=f"the state of {seen.optimizer}: a hook of the LightningModule or a callback"),
        )


RULE = Rule(
    id="gradients/state-lost",
    item="gradients",
    question="Does the optimizer keep its state (such as Adam's averages) from step to step?",
    why="without its averages over past gradients each step has the size of the first, whatever the slope",
    severity=FAILED,
    evidence=OptimizerEffects,
    judge=judge,
    fix=Fix("leave optimizer.state alone, and build the optimizer once, in configure_optimizers"),
    faulty=lambda: OptimizerEffects("Adam", [], forgotten=[(4, 4), (4, 4)]),
    healthy=lambda: OptimizerEffects("Adam", [], forgotten=[(0, 4), (0, 4)]),
)
