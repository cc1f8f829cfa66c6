"""Averages of weights that a project keeps beside them."""

from dataclasses import dataclass

from training_checklist.finding import NOWHERE, Place


@dataclass
class Average:
    """Tensors that go towards the weights, each time by a share of the way.

    Args:
        name: of what keeps them: "EMA.shadow['net.weight']".
        shares: of the way, each time that they went.
        times: that they will in the whole training.
    """

    name: str
    shares: list[float]
    times: float
    place: Place = NOWHERE

    def is_steady(self, most: float) -> bool:
        """Whether the shares are one number, and no decay that is still rising."""
        return len(self.shares) > 1 and max(self.shares) <= most * min(self.shares)


@dataclass
class Aliases:
    """Tensors kept beside the weights that are the weights themselves: whatever is done to one is done to both.

    Args:
        owner: what keeps them: "EMA.shadow".
        number: of them.
        weights: of the network that train.
    """

    owner: str
    number: int
    weights: int
    place: Place = NOWHERE


@dataclass
class Copies:
    """Tensors beside the weights that each began as one of them, while all these weights train.

    Args:
        owner: what keeps them: "target", "EMA.shadow".
        moved: names of those that have changed since.
        still: of those that have not, though their weights have.
    """

    owner: str
    moved: list[str]
    still: list[str]
    place: Place = NOWHERE
