"""Gradients as autograd has them, beside the slopes of what was computed."""

from dataclasses import dataclass, field

from training_checklist.finding import NOWHERE, Place


@dataclass
class Trial:
    """One comparison.

    Args:
        agrees: whether torch.autograd.gradcheck, or random directions where there are many values, let it pass.
        slopes: analytical and numerical, along random directions.
    """

    agrees: bool
    slopes: list[tuple[float, float]]


@dataclass
class Slopes:
    """Trials at several points and with several steps; the first that agrees ends them.

    Args:
        reason: why there are none, "" where there are.
    """

    trials: list[Trial] = field(default_factory=list)
    reason: str = ""

    def differ(self, by: float) -> bool:
        """Whether gradient and slope differ in every trial, by more than a share `by` of the larger."""
        trials = self.trials
        return bool(trials) and all(not each.agrees and max(map(apart, each.slopes)) > by for each in trials)

    def __str__(self) -> str:
        analytical, numerical = max(self.trials[0].slopes, key=apart)
        times = f" ({analytical / numerical:.3g} times it)" if numerical else ""
        return f"along a random direction {analytical:.6g} analytically{times}, {numerical:.6g} numerically"


@dataclass
class FunctionSlopes:
    """An autograd.Function of the project's own, as a function of one input.

    Args:
        place: of its backward.
        applied: where it is called.
    """

    name: str
    input: str
    slopes: Slopes
    place: Place = NOWHERE
    applied: Place = NOWHERE


@dataclass
class LossSlopes:
    """The loss as a function of one tensor that a module returns.

    Args:
        module: its name, and the tensor's place in what it returns: "net['boxes']".
        values: in that tensor.
    """

    module: str
    slopes: Slopes
    values: int = 0
    place: Place = NOWHERE


def apart(slopes: tuple[float, float]) -> float:
    """Return how far two slopes are apart, relative to the larger one."""
    return abs(slopes[0] - slopes[1]) / max(*map(abs, slopes), 1e-9)
