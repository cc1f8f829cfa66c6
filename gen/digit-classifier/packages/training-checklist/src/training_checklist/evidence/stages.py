"""What one batch of each stage came to."""

from dataclasses import dataclass, field

from training_checklist.finding import NOWHERE, Place


@dataclass
class FirstStep:
    """The first training step.

    Args:
        loss: what `training_step` returned, None where it returned none.
        automatic: whether Lightning drives the optimizers, which it does by the returned loss.
        place: of `training_step`.
    """

    loss: float | None
    automatic: bool
    place: Place = NOWHERE


@dataclass
class LoggedMetrics:
    """Metrics after one batch, by name, with the stages that ran."""

    values: dict[str, float]
    stages: list[str] = field(default_factory=list)
