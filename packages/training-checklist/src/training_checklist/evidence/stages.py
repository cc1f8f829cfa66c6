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


@dataclass
class LikeHook:
    """A method of the project that is named like a hook of Lightning, and overrides none.

    Args:
        owner: its class.
        kind: of Lightning that this is: "Callback".
        called: whether the project's own code names it.
        near: hooks that may have been meant.
        elsewhere: whether another kind has a hook of this name.
    """

    name: str
    owner: str
    kind: str
    called: bool
    near: list[str] = field(default_factory=list)
    elsewhere: bool = False
    place: Place = NOWHERE
