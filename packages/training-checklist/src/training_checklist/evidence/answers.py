"""Steps whose network answers everything rightly, and everything wrongly."""

from dataclasses import dataclass, field
from math import isclose

from training_checklist.direction import better
from training_checklist.finding import NOWHERE, Place

SAME = 1e-5  # relative: the same float32 numbers, added up in another order


@dataclass
class Answered:
    """A step that was taken twice, with other answers put in place of the network's.

    Args:
        step: "validation_step".
        right: the values that it logs where each answer is the one that the criterion asks for, by name.
        wrong: likewise, where each is another one.
        loss: that it returns in both cases; None where it returns none.
        place: of the criterion.
        one_elsewhere: the values that it logs with one class as answer where the criterion ignores the target.
        other_elsewhere: likewise, with another class.
        ignored: number of targets that it ignores.
        barely: the values that it logs where answers of yes and no are right, by their logit.
    """

    step: str
    right: dict[str, float] = field(default_factory=dict)
    wrong: dict[str, float] = field(default_factory=dict)
    loss: tuple[float, float] | None = None
    place: Place = NOWHERE
    one_elsewhere: dict[str, float] = field(default_factory=dict)
    other_elsewhere: dict[str, float] = field(default_factory=dict)
    ignored: int = 0
    barely: dict[float, dict[str, float]] = field(default_factory=dict)

    @property
    def counting_ignored(self) -> list[str]:
        """The metrics, but for losses, that change with answers which the criterion does not ask for."""
        one, other = self.one_elsewhere, self.other_elsewhere
        names = [name for name in one if is_metric(name) and name in other]
        return [name for name in names if not isclose(one[name], other[name], rel_tol=SAME)]


def is_metric(name: str) -> bool:
    """Whether more or less of what is logged is better, as its name tells; not of a throughput, say."""
    return "loss" not in name.lower() and better(name) is not None


@dataclass
class AfterAnother:
    """Whether layers answer otherwise to a batch of validation after another batch than by itself.

    Args:
        differs: although all weights, and all random numbers, are the same.
        place: of the step.
    """

    differs: bool
    place: Place = NOWHERE
