import math

from torch import Tensor

from training_checklist.instruments import FirstSteps, Small, several_steps, shown
from training_checklist.probe import Fix, Hit, Hits, Limits, Place, Probe


def detect(steps: FirstSteps, limits: Limits) -> Hits:
    norms, losses, trainer = steps.norms, steps.losses, steps.trainer
    bad = {name: [step for step, norm in enumerate(of) if not math.isfinite(norm or 0)] for name, of in norms.items()}
    names = [name for name, found in bad.items() if found]
    # A scaler skips the steps with which it looks for its scale.
    scaled = getattr(trainer.precision_plugin, "scaler", None) is not None
    if not names or (scaled and not any(len(bad[name]) == len(norms[name]) for name in names)):
        return
    first = min(bad[name][0] for name in names)
    names = [name for name in names if bad[name][0] == first]
    loss = losses[min(first * trainer.accumulate_grad_batches, len(losses) - 1)] if losses else 0.0
    yield Hit(
        f"{len(names)} of {len(norms)} gradients are NaN or Inf in step {first}, at a loss of {loss:.4g}",
        Place(parameter=shown(names)),
        fix=Fix("it names the operation", items=("anomaly" if math.isfinite(loss) else "overflow",)),
    )


class Rooted(Small):
    added = 0.0

    def forward(self, inputs: Tensor) -> Tensor:
        return self.head((0 * self.first(inputs) + self.added).sqrt())


PROBE = Probe(
    question="Is every gradient finite?",
    why="every weight that they update is NaN after this step",
    fix=Fix(items=("anomaly", "overflow")),
    detect=detect,
    faulty=several_steps(Rooted),
    healthy=several_steps(type("Above0", (Rooted,), {"added": 1.0})),
    symptom=True,
)
