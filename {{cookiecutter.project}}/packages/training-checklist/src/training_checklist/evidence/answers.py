"""Steps whose network answers everything rightly, and everything wrongly."""

from dataclasses import dataclass, field

from training_checklist.finding import NOWHERE, Place


@dataclass
class Answered:
    """A step that was taken twice, with other answers put in place of the network's.

    Args:
        step: "validation_step".
        right: the values that it logs where each answer is the one that the criterion asks for, by name.
        wrong: likewise, where each is another one.
        loss: that it returns in both cases; None where it returns none.
        place: of the criterion.
    """

    step: str
    right: dict[str, float] = field(default_factory=dict)
    wrong: dict[str, float] = field(default_factory=dict)
    loss: tuple[float, float] | None = None
    place: Place = NOWHERE
