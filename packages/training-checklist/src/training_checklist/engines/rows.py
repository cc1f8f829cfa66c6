"""What tensors of a run were at one point of it, so that runs can be compared."""

from dataclasses import dataclass

from training_checklist.finding import NOWHERE, Place


@dataclass(frozen=True)
class Row:
    """One tensor.

    Args:
        kind: "initial weight", "batch", "validation batch", "loss", "gradient", "parameter", "operation".
        step: of training, from 0 on.
        name: of the parameter, the tensor in the batch, or the operation.
        digest: of its bytes; "" where it has none.
        norm: of its entries.
        place: of the operation that made it.
    """

    kind: str
    step: int
    name: str
    digest: str
    norm: float = 0.0
    place: Place = NOWHERE

    def equals(self, other: "Row") -> bool:
        """Whether the other run has the same to the last bit."""
        return (self.kind, self.step, self.name, self.digest) == (other.kind, other.step, other.name, other.digest)
