"""What a training takes of memory, predicted and seen."""

from dataclasses import dataclass, field

from training_checklist.finding import NOWHERE, Place


@dataclass
class PredictedPeak:
    """The most memory that a training step takes on an accelerator.

    Args:
        bytes: of the step; None where it could not be predicted, for `reason`.
        budget_gb: what the accelerator has, in GiB.
        assumed: whether nobody has said what it has, and this machine has none.
        overhead_gb: of the budget that is not predicted: the device's context, workspaces of kernels, fragmentation.
        largest: the largest part, in words: "activations of net.encoder, 1.44 GiB".
        parts: all parts, in words, the largest first.
        overrides: settings with which it fits.
        advice: further ways out, each with the peak that is predicted for it.
    """

    bytes: int | None
    budget_gb: float = 0.0
    assumed: bool = False
    overhead_gb: float = 0.0
    largest: str = ""
    parts: str = ""
    overrides: tuple[str, ...] = ()
    advice: str = ""
    reason: str = ""
    place: Place = NOWHERE


@dataclass
class GraphNodes:
    """How many of autograd's nodes one place keeps alive after each step, the first step left out; [] of none.

    Args:
        anywhere: whether it is no attribute or variable that is known, but whatever is alive beside those.
        of_a_step: nodes of the smallest graph of a step.
    """

    holder: str
    counts: list[int] = field(default_factory=list)
    anywhere: bool = False
    of_a_step: int = 0


@dataclass
class KeptTensors:
    """How many bytes of tensors without a graph one place keeps after each epoch, the first value before them all."""

    holder: str
    sizes: list[int] = field(default_factory=list)
    steps: int = 0


@dataclass
class ValidationGraphs:
    """Modules whose outputs in validation had a graph that nothing asked for."""

    modules: list[str] = field(default_factory=list)
    place: Place = NOWHERE


@dataclass
class LoadedAgain:
    """How much an attribute of a dataset holds after one sample was loaded, and loaded again, and again."""

    attribute: str
    sizes: list[int] = field(default_factory=list)
    place: Place = NOWHERE
