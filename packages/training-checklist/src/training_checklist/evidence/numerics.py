"""Numbers that are not finite, or not far from it: what made them."""

from dataclasses import dataclass, field

from training_checklist.finding import NOWHERE, Place


@dataclass
class BadOperation:
    """The first operation that made Inf or NaN.

    Args:
        kind: "Inf" or "NaN".
        name: of the operation; as autograd calls it where its backward made it.
        dtype: of what it made: "float16".
        given: abs-max of what went in.
        exact: abs-max of the result in FP32, None where that is not finite either, or not known.
        reached: path of the first module that has it among its inputs.
    """

    kind: str
    name: str
    place: Place = NOWHERE
    dtype: str = "float32"
    given: float = 0.0
    exact: float | None = None
    reached: str = ""


@dataclass
class BackwardPasses:
    """The backward passes of some steps.

    Args:
        steps: how many there were.
        bad: the operation whose backward made the first Inf or NaN; None where all were finite.
        loss: of the last of them.
        reaches: whether it reached the gradient of a parameter; False where something on its way put 0 in its place.
        forward: the operation that made a loss that is not finite.
        fp16: whether they were a trial in FP16 autocast.
    """

    steps: int
    bad: BadOperation | None = None
    loss: float = 0.0
    reaches: bool = False
    forward: BadOperation | None = None
    fp16: bool = False


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


@dataclass
class HalfRange:
    """The largest finite value that was FP16, and where."""

    largest: float
    place: Place = NOWHERE


@dataclass
class ClippedNorms:
    """Norm of all gradients as backward made them, and as the optimizer's step got them, by step.

    Args:
        place: of what clips them.
    """

    norms: list[tuple[float, float]]
    place: Place = NOWHERE


@dataclass
class OwnTensor:
    """A tensor that the project has shown to `detect_overflow`.

    Args:
        what: what it holds, in words.
        finite: whether that is all finite.
    """

    what: str
    finite: bool
    place: Place = NOWHERE
