import math
from collections.abc import Iterator
from typing import Any

from training_checklist.engines.parameter_names import shown
from training_checklist.evidence.gradients import GradientNorms
from training_checklist.finding import FAILED, Fix, Place
from training_checklist.rule import Hit, Rule


def judge(gradients: GradientNorms, limits: Any) -> Iterator[Hit]:
    bad = {
        name: [step for step, norm in enumerate(norms) if not math.isfinite(norm or 0)]
        for name, norms in gradients.norms.items()
    }
    names = [name for name, steps in bad.items() if steps]
    # A scaler skips the steps with which it looks for its scale.
    if not names or (gradients.scaled and not any(len(bad[name]) == len(gradients.norms[name]) for name in names)):
        return
    first = min(bad[name][0] for name in names)
    names = [name for name in names if bad[name][0] == first]
    losses = gradients.losses
    loss = losses[min(first * gradients.batches, len(losses) - 1)] if losses else 0.0
    yield Hit(
        f"{len(names)} of {len(gradients.norms)} gradients are NaN or Inf in step {first}, at a loss of {loss:.4g}",
        Place(parameter=shown(names)),
        fix=Fix("it names the operation", items=("anomaly" if math.isfinite(loss) else "overflow",)),
    )


RULE = Rule(
    id="gradients/not-finite",
    item="gradients",
    question="Is every gradient finite?",
    why="every weight that they update is NaN after this step",
    severity=FAILED,
    evidence=GradientNorms,
    judge=judge,
    fix=Fix(items=("anomaly", "overflow")),
    faulty=lambda: GradientNorms({"net.weight": [0.1, math.nan]}, [2.3, 2.2]),
    healthy=lambda: GradientNorms({"net.weight": [math.inf, 0.1]}, [2.3, 2.2], scaled=True),
    symptom=True,
)
