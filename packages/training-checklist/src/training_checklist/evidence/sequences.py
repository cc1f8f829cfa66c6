"""What was tried with the sequences of a batch: other tokens, and more padding."""

from dataclasses import dataclass, field

from training_checklist.finding import NOWHERE, Place


@dataclass
class OwnTarget:
    """A network that answers at each position of a sequence, and is compared with tokens of the same sequence.

    Args:
        leaf: place of the sequence in the batch.
        shift: by how many positions the target of a position comes after it: 1 for the next token.
        sees_target: whether the answer at a position changes with the token that is its target.
        sees_next: whether it changes with the token after that position.
        forced: whether the network is given two sequences, of which one is the targets: it may be taught by them.
        place: of the criterion.
    """

    leaf: str
    shift: int
    sees_target: bool
    sees_next: bool
    forced: bool = False
    place: Place = NOWHERE


@dataclass
class MorePadding:
    """A batch, and the same batch with more of the padding that it has.

    Args:
        leaf: place of the largest sequence in the batch.
        added: positions.
        loss: of the batch; padded: with more padding.
        answers_change: whether answers at positions that are no padding, or for whole sequences, are others; None where
            no criterion shows them.
        over_time: types of the layers that read neighbours or go on from position to position, such as convolutions.
        place: of the criterion, or of the step.
    """

    leaf: str
    added: int
    loss: float
    padded: float
    answers_change: bool | None = None
    over_time: list[str] = field(default_factory=list)
    place: Place = NOWHERE


@dataclass
class OtherOrder:
    """Sequences whose tokens were put into another order, and what a network with attention answers.

    Args:
        leaf: place of the sequences in the batch.
        attention: where attention was called; "" where it was not.
        changes: whether the answers are others.
        place: of the criterion.
    """

    leaf: str
    attention: str
    changes: bool
    place: Place = NOWHERE
