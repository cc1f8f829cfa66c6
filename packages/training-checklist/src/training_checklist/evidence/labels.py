"""What labels say, and whether they belong to their inputs."""

import math
from dataclasses import dataclass, field

from torch import Tensor

from training_checklist.engines.chance import CHANCE, at_least, at_most
from training_checklist.finding import NOWHERE, Place


@dataclass
class LabelCounts:
    """How often each label occurs in a split, as far as it was looked at; labels without an output left out."""

    name: str
    counts: dict[int, int]
    place: Place = NOWHERE

    @property
    def total(self) -> int:
        return sum(self.counts.values())


@dataclass
class SplitLabels:
    """The labels of all splits, and how many classes the network tells apart."""

    classes: int
    train: LabelCounts
    held_out: list[LabelCounts] = field(default_factory=list)


@dataclass
class LabelledClasses:
    """The labels of all splits together, of samples or of pixels.

    Args:
        classes: that the network tells apart.
        counts: of each label.
        obstacle: why a class that is not among them may have labels all the same.
    """

    classes: int
    counts: dict[int, int]
    obstacle: str = ""
    place: Place = NOWHERE


@dataclass
class ClassWeights:
    """The weights that a criterion gives to classes, and how often each class was among the labels that it was given.

    Args:
        criterion: its name.
        weights: by class.
        counts: by class, of the training batches that were seen.
        whole: by class, of the whole training set; none where too few of its labels are known.
        sampled: whether these are of samples drawn from it.
    """

    criterion: str
    weights: list[float]
    counts: list[int]
    place: Place = NOWHERE
    whole: list[int] = field(default_factory=list)
    sampled: bool = False


@dataclass
class PositiveWeights:
    """The weights that binary cross-entropy gives to positives, and how often each output's target was one.

    Args:
        weights: by output.
        positives: likewise.
        labels: of each output, that were seen.
    """

    weights: list[float]
    positives: list[int]
    labels: int
    place: Place = NOWHERE


@dataclass
class LabelRuns:
    """Labels in the order in which training reads them.

    Args:
        sampler: name of the class that orders them.
        counts: of each label.
        runs: of equal labels that follow one another.
    """

    sampler: str
    counts: list[int]
    runs: int
    place: Place = NOWHERE


@dataclass
class SameInputs:
    """Training samples with one input, loaded with the same random numbers each.

    Args:
        samples: that were looked at.
        contradicting: those that have the input of an earlier one and another target.
        pair: indices of two of them.
        distinct: different inputs.
        repeatable: whether two samples of such data may well be equal by chance, as rows of a table.
    """

    samples: int
    contradicting: int
    distinct: int
    repeatable: bool
    pair: tuple[int, int] = (0, 0)
    place: Place = NOWHERE


@dataclass
class LabelFit:
    """Labels against the nearest class centre; (C, C) counts: rows are labels, columns the class of the centre.

    Args:
        name: of the held-out split.
        labels: of the rows.
        within: half of the training set by the centres of the other half.
        across: the held-out split by the centres of the training set.
        held: half of the held-out split by the centres of its other half.
    """

    name: str
    labels: list[int]
    within: Tensor
    across: Tensor
    held: Tensor
    place: Place = NOWHERE

    def moved(self) -> dict[int, int]:
        """Return the classes that are another class in the held-out split, {label there: label here}, where they swap.

        A class has moved where more than half of its training samples lie nearest to its own centre, and more than
        half of its held-out samples to the centre of one and the same other class. Chance moves no set of classes onto
        itself; a class that is merely hard moves onto one that stays.
        """
        moved = {}
        for row in range(len(self.labels)):
            here, there = self.within[row], self.across[row]
            seen = int(there.argmax())
            if seen != row and 2 * here[row] > here.sum() and 2 * there[seen] > there.sum():
                moved[row] = seen
        stays = {row for row, there in enumerate(self.across) if 2 * there[row] > there.sum()}
        whole = set(moved) == set(moved.values())
        # A class whose samples are told from no other is missing in the ring.
        most = 2 * len(moved) > len(self.labels) and not stays & set(moved.values())
        if not (whole or most) or sum(self.lost(row) for row in moved) > math.log(CHANCE):
            return {}
        return {self.labels[row]: self.labels[seen] for row, seen in moved.items()}

    def lost(self, row: int) -> float:
        """Return the logarithm of the chance that a class is found so rarely in the held-out split."""
        here, there = self.within[row], self.across[row]
        found = at_most(int(there[row]), int(there.sum()), float(here[row] / here.sum()))
        return math.log(max(found, 1e-300))


@dataclass
class TrainingLabels(LabelFit):
    """The same of training inputs that no augmentation has changed."""


def agreement(table: Tensor) -> float:
    """Return the share of samples that lie nearest to the centre of their class."""
    return float(table.diagonal().sum() / table.sum())


def fits(table: Tensor) -> bool:
    """Whether labels and nearest centres agree more often than if they had nothing to do with one another."""
    total = int(table.sum())
    unrelated = float((table.sum(0) / total) @ (table.sum(1) / total))
    return at_least(int(table.diagonal().sum()), total, unrelated) < CHANCE


def is_less(table: Tensor, rate: float) -> bool:
    """Whether samples agree more rarely than at `rate`, and chance does not explain it."""
    return at_most(int(table.diagonal().sum()), int(table.sum()), rate) < CHANCE


@dataclass
class TokenShare:
    """The token that stands most often in texts, beside those that most of them begin or end with.

    Args:
        name: place of the tokens in the batch.
        token: its number.
        share: of all tokens but those at the ends.
        rows: of the embedding that takes them.
    """

    name: str
    token: int
    share: float
    rows: int
    place: Place = NOWHERE


@dataclass
class TokenLabels:
    """How well tokens tell whether a label is the most frequent one, from half of the texts to the other half.

    Args:
        name: place of the labels in the batch.
        tokens: place of the tokens.
        labels: that were looked at.
        errors: share that is told wrongly, by how many places the token stands after its label.
    """

    name: str
    tokens: str
    labels: int
    errors: dict[int, float]
    place: Place = NOWHERE


@dataclass
class IgnoredTokens:
    """The tokens that have the label which the criterion ignores, those that fill texts up left out.

    Args:
        label: that is ignored.
        has_output: whether it is one of the network's classes.
        share: of the tokens.
        kinds: different tokens that have it.
    """

    label: int
    has_output: bool
    share: float
    kinds: int
    place: Place = NOWHERE


@dataclass
class HeldOutToken:
    """The token whose share of the tokens is most above that in the training set.

    Args:
        name: place of the tokens in the batch.
        split: name of the held-out split.
        share: of its tokens.
        train: of those of the training set.
    """

    name: str
    split: str
    token: int
    share: float
    train: float
    place: Place = NOWHERE


@dataclass
class TextLengths:
    """How many tokens texts have.

    Args:
        longest: number of tokens.
        cut: how many texts have as many.
        texts: that were looked at.
    """

    longest: int
    cut: int
    texts: int
    place: Place = NOWHERE
