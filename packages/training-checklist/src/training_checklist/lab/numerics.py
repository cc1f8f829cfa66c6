"""Numbers that are not finite, or not far from it: what made them."""

from dataclasses import dataclass, field
from typing import Any

from training_checklist.engines.not_finite import BadOperation
from training_checklist.finding import Place
from training_checklist.lab.examples import Example, project
from training_checklist.lab.shared import Subject


@dataclass
class BackwardPasses:
    """The backward passes of some steps.

    Args:
        steps: how many there were.
        bad: the operation whose backward made the first Inf or NaN; None where all were finite.
        loss: of the last of them.
        reaches: whether it reached the gradient of a parameter; False where something on its way put 0 in its place.
        forward: the operation that made a loss that is not finite.
    """

    steps: int
    bad: BadOperation | None = None
    loss: float = 0.0
    reaches: bool = False
    forward: BadOperation | None = None


@dataclass
class ForwardPass:
    """The forward passes of some steps, up to the first whose loss is not finite.

    Args:
        loss: of the last one.
        seen: what to say of it first: "the loss is nan in step 3, batch 3".
        bad: the operation that made the first Inf or NaN.
        weights: names of parameters that were not finite before the step.
        batch: whether the batch held Inf or NaN.
        only_fp16: whether the same step is finite in the precision that the trainer has.
        module: path of the first module with Inf or NaN in its output, "" for none.
        eps: of an optimizer, where it is 0 in the type of its weights, with the optimizer's name and the type.
    """

    loss: float
    seen: str
    bad: BadOperation | None = None
    weights: list[str] = field(default_factory=list)
    batch: bool = False
    only_fp16: bool = False
    module: str = ""
    eps: tuple[float, str, str] | None = None


class Numbers(Subject):
    """What is known of the numbers of a run.

    Attributes:
        backward_in_fp16: that of a step that was tried in FP16 autocast, None where none was.
        largest_in_fp16: finite values, each with the place of the operation or module that made it.
        norms: of all gradients as backward made them, and as the optimizer's step got them, by step.
        clips: place of what clips them.
        shown: what each tensor holds that the project has given to `detect_overflow`, "" where it is finite.
    """

    backward: BackwardPasses
    backward_in_fp16: BackwardPasses | None = None
    forward: ForwardPass
    norms: list[tuple[float, float]]
    clips: Place

    def __init__(self) -> None:
        self.largest_in_fp16: dict[Place, float] = {}
        self.shown: dict[str, str] = {}


def in_mixed_precision(loss: Any) -> Example:
    """Make an example of a loss that is trained, and tried in FP16, in mixed precision."""
    return Example(project(loss).module, trainer={"precision": "bf16-mixed"})
