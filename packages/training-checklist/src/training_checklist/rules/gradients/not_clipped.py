from collections.abc import Iterator
from typing import Any

from training_checklist.evidence.gradients import ClippedSteps
from training_checklist.finding import WARNING, Fix
from training_checklist.rule import Hit, Rule, Threshold


def judge(steps: ClippedSteps, limits: Any) -> Iterator[Hit]:
    above = [norm for norm in steps.norms if norm > limits.above_clip * steps.limit]
    if above:
        yield Hit(
            f"gradients of {len(above)} of {len(steps.norms)} steps have a greater norm than "
            f"trainer.gradient_clip_val={steps.limit:g}, up to {max(above):.3g}",
            steps.place.beside(key="trainer.gradient_clip_val", value=f"{steps.limit:g}"),
        )


RULE = Rule(
    id="gradients/not-clipped",
    item="gradients",
    question="Is the gradient norm at the optimizer's step within gradient_clip_val?",
    why="something other than these gradients is clipped, or they change afterwards: large steps are as large as ever",
    severity=WARNING,
    evidence=ClippedSteps,
    judge=judge,
    fix=Fix(
        "in configure_gradient_clipping: self.clip_gradients(optimizer, gradient_clip_val, gradient_clip_algorithm)"
    ),
    faulty=lambda: ClippedSteps(1.0, [0.4, 3.2, 1.7]),
    healthy=lambda: ClippedSteps(1.0, [0.4, 1.0, 1.0]),
    thresholds={"above_clip": Threshold(1.01, "of the limit: clipping divides by the norm in float32, or in bfloat16")},
)
