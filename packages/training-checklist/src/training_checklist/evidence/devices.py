"""Where a step on an accelerator would meet a tensor of another device."""

from dataclasses import dataclass, field, replace

from training_checklist.finding import NOWHERE, Fix, Place
from training_checklist.rule import Hit

WHY = "on an accelerator this step ends with an error about tensors on two devices; the CPU never shows it"


@dataclass(frozen=True)
class Origin:
    """What a tensor is that does not lie on the accelerator.

    Args:
        kind: "made", "moved", "numpy", "layer", "parameter", "attribute", "datamodule", "batch", "numbered",
            "generator", "unknown", or "torch" where a module of torch itself refused; "asked" where the code follows
            some device, which would be another one elsewhere.
        name: the call that made it, "torch.ones", or what holds it, "net.positions", "batch['labels']".
        place: of the call, or the attribute.
    """

    kind: str
    name: str
    place: Place = NOWHERE


@dataclass(frozen=True)
class Mix:
    """An operation on tensors of two devices.

    Args:
        operation: of torch: "mul".
        origin: of the tensor that is not where the others are.
        used: where the operation is called.
    """

    operation: str
    origin: Origin
    used: Place

    @property
    def attribute(self) -> str:
        """The last name of what holds the tensor: "positions"."""
        return self.origin.name.partition(" ")[0].partition("[")[0].rpartition(".")[2]

    def hit(self, what: str) -> Hit:
        """Return the finding that `what` is: the operation, with the places of the tensor's origin and of its use."""
        place = self.used.beside(parameter=self.origin.place.parameter)
        if self.origin.place.line:
            used = (
                "" if (self.origin.place.file, self.origin.place.line) == (place.file, place.line) else str(self.used)
            )
            place = self.origin.place.beside(note=f"used in {used}" if used else "")
        return Hit(f"{self.operation} would mix cuda:0 and cpu: {what}", place)

    def fixed(self, what: str, advice: str) -> Hit:
        """Return the same with an advice that names the tensor."""
        return replace(self.hit(what), fix=Fix(advice))


@dataclass
class AcceleratorStep:
    """A step on a pretended accelerator.

    Args:
        step: "training_step".
        operations: how many were on tensors of the accelerator.
    """

    step: str
    operations: int
    mixes: list[Mix] = field(default_factory=list)

    def of(self, *kinds: str) -> list[Mix]:
        return [mix for mix in self.mixes if mix.origin.kind in kinds]


def example(kind: str, name: str, **place: str | int) -> AcceleratorStep:
    """Return a step in which one operation met a tensor of another device."""
    used = Place(module="net (Net)", file="net.py", line=21, function="Net.forward", source="return self.head(x * m)")
    return AcceleratorStep("training_step", 40, [Mix("mul", Origin(kind, name, Place(**place)), used)])
