"""What a batch's way through the network to the criterion showed."""

from dataclasses import dataclass, field
from itertools import zip_longest

from training_checklist.finding import NOWHERE, Place

Shape = tuple[int, ...]


@dataclass
class ModuleCall:
    """One call of a module.

    Args:
        output: what it returned, "" while it runs or where it raised.
        smallest: least absolute value that is in its output.
        largest: greatest absolute value.
        parameters: how many numbers it learns or keeps as parameters.
        varies: whether samples differ in its input, and in its output; None where that cannot be told.
        with_grad: whether gradients were recorded.
    """

    path: str
    type: str
    input: str
    parameters: int
    with_grad: bool
    output: str = ""
    dtype: str = ""
    device: str = ""
    smallest: float | None = None
    largest: float | None = None
    varies: tuple[bool | None, bool | None] = (None, None)

    @property
    def named(self) -> str:
        return f"{self.path} ({self.type})"


@dataclass(frozen=True)
class Unregistered:
    """A module that learns and was called, but is no submodule of the LightningModule."""

    path: str
    type: str
    parameters: int


@dataclass
class SharedNorm:
    """A batch normalisation that ran more than once within one call of the module that calls it.

    Args:
        after: the modules that ran right before it.
    """

    path: str
    type: str
    after: list[str]


@dataclass
class Modules:
    """The modules that a training step called."""

    called: int
    unregistered: list[Unregistered] = field(default_factory=list)
    shared_norms: list[SharedNorm] = field(default_factory=list)


@dataclass
class CriterionInput:
    """What a criterion was given in a training step.

    Args:
        name: of the function in torch.nn.functional.
        low: least score.
        high: greatest score.
        zeros: share of scores that are exactly 0.
        made_by: the operation that made the scores, as autograd names it: "Softmax", "Relu"; "" where it is not known.
        over_classes: "probabilities" or "log-probabilities", where the scores are that over dim 1; else "".
        over_samples: likewise over dim 0.
        over_last: likewise over the last dim.
        dropped: where a dropout made the scores, None where none did.
        below: share of the targets, where they are numbers like the scores, that are less than 0.
        above: share of them that are more than 1.
    """

    name: str
    shape: Shape
    target_shape: Shape
    low: float = 0.0
    high: float = 0.0
    zeros: float = 0.0
    made_by: str = ""
    over_classes: str = ""
    over_samples: str = ""
    over_last: str = ""
    place: Place = NOWHERE
    dropped: Place | None = None
    below: float = 0.0
    above: float = 0.0

    @property
    def range(self) -> str:
        return f"{self.low:.4g} to {self.high:.4g}"


@dataclass(frozen=True)
class CriterionSlope:
    """How the loss changes as a criterion grows."""

    name: str
    value: float
    slope: float
    place: Place = NOWHERE


@dataclass
class LossSlopes:
    """A loss and the criteria that it is made of.

    Args:
        optimizers: how many there are; several may play against each other.
        accumulated: batches of a step of the optimizer, by which Lightning has divided the loss.
        others: whether the loss compares answers with a part of the batch in other ways, too; known of flat ones.
    """

    loss: float
    slopes: list[CriterionSlope]
    optimizers: int = 1
    accumulated: int = 1
    others: bool = False

    @property
    def are_flat(self) -> bool:
        return bool(self.slopes) and all(each.slope == 0 for each in self.slopes)


@dataclass
class SampleOutputs:
    """What a criterion is given for the samples of a batch.

    Args:
        same: whether all samples have the same.
        place: of the first module after which they have; where none is, of the nearest.
        advice: what to look at there.
    """

    samples: int
    same: bool
    place: Place = NOWHERE
    advice: str = ""


@dataclass
class ClassCounts:
    """The width of the one classification in a step, and the classes that metrics count, by their paths."""

    outputs: int
    metrics: dict[str, int]
    place: Place = NOWHERE


@dataclass
class WithoutEffect:
    """A module that the loss does not depend on in a training step.

    Args:
        parameters: that an optimizer holds.
        zero: whether they got gradients, all exactly 0; else they got none.
        called: whether it ran.
        with_grad: whether gradients were recorded while it ran.
        chosen: whether it is one of a list, of which a step may take some: an expert, a layer that is skipped.
        own: whether the project's own code calls it, and not a package's.
        copied: whether another module had the very weights when training began.
    """

    path: str
    parameters: list[str]
    zero: bool
    called: bool = True
    with_grad: bool = True
    chosen: bool = False
    own: bool = True
    copied: bool = False

    @property
    def place(self) -> Place:
        named = ", ".join(self.parameters[:4]) + ", ..." * (len(self.parameters) > 4)
        return Place(module=self.path, parameter=named)


@dataclass
class Effects:
    """Which modules have none on the loss.

    Args:
        trained: how many parameters an optimizer holds.
        reached: how many of them got a gradient other than 0.
        automatic: whether Lightning drives the optimizers.
        zero_start: parameters that start from 0 on purpose; what lies before them gets its gradient later.
    """

    trained: int
    reached: int
    without: list[WithoutEffect] = field(default_factory=list)
    automatic: bool = True
    zero_start: list[str] = field(default_factory=list)


@dataclass
class SoftmaxCall:
    """One softmax over the first dimension, which is as long as the batch.

    Args:
        of_pairs: whether its input is square and may compare all samples with all.
        follows_batch: whether that dimension is shorter in a batch with a sample less; None where that was not seen.
    """

    shape: Shape
    place: Place = NOWHERE
    of_pairs: bool = False
    follows_batch: bool | None = None


@dataclass
class Softmaxes:
    calls: list[SoftmaxCall]
    batch_size: int


@dataclass
class OtherDimension:
    """An operation over a dimension of answers, and a criterion that takes another one for that of the classes.

    Args:
        operation: "softmax", "argmax".
        dim: that it is over, from 0 on.
        criterion: its name.
    """

    operation: str
    shape: Shape
    dim: int
    criterion: str
    place: Place = NOWHERE


@dataclass
class OtherDimensions:
    found: list[OtherDimension]


@dataclass
class ProductsOfWeights:
    """Softmaxes, and products of matrices (for criterion: "matmul") that add up their results over another one."""

    found: list[OtherDimension]


@dataclass
class Pairing:
    """An elementwise operation of two tensors that gives a square of the batch.

    Args:
        shapes: of the two.
        meant: whether one of the two got its dimension in this very statement, or both hold the same numbers.
        follows_batch: whether the square is smaller in a batch with a sample less; None where that was not seen.
    """

    operation: str
    shapes: tuple[Shape, Shape]
    result: Shape
    place: Place = NOWHERE
    meant: bool = False
    follows_batch: bool | None = None


@dataclass
class Pairings:
    """The pairings in one call of a step."""

    step: str
    calls: list[Pairing]


@dataclass
class Doubled:
    """A concatenation that is given one tensor twice.

    Args:
        shape: of that tensor.
        parts: how many tensors it is given.
    """

    operation: str
    shape: Shape
    parts: int = 2
    place: Place = NOWHERE


@dataclass
class Concatenations:
    """The concatenations of tensors that weights have made, where one is there twice; once a line."""

    doubled: list[Doubled] = field(default_factory=list)


@dataclass
class Reshape:
    """A reshape whose result has the sizes of what is given in another order."""

    operation: str
    given: Shape
    result: Shape
    place: Place = NOWHERE

    @property
    def told(self) -> str:
        return f"{self.operation} gives {by(self.given)} the shape {by(self.result)}, the same axes in another order"


@dataclass
class Reshapes:
    """The reshapes to the shape of a transpose; once a line."""

    calls: list[Reshape] = field(default_factory=list)


@dataclass
class DeadTerm:
    """A number that is added to a loss and was computed from answers of the network without their graph."""

    operation: str
    value: float
    place: Place = NOWHERE


@dataclass
class DeadTerms:
    """Those of a step; once a line."""

    terms: list[DeadTerm] = field(default_factory=list)


@dataclass
class Draw:
    """A call of torch.normal around what the network answers, whose result the loss needs and that has no gradient."""

    place: Place = NOWHERE


@dataclass
class Draws:
    """Those of a step."""

    calls: list[Draw] = field(default_factory=list)


@dataclass
class LossTerm:
    """A number that many were brought down to, as a loss is.

    Args:
        value: what it adds to the loss of some samples, to first order; doubled: to that of each of them twice.
    """

    operation: str
    value: float
    doubled: float
    place: Place = NOWHERE

    @property
    def growth(self) -> float:
        return self.doubled / self.value


@dataclass
class LossTerms:
    """Those that a loss is made of and that depend on the samples."""

    terms: list[LossTerm] = field(default_factory=list)


@dataclass
class Squash:
    """A call of a function that takes logits, with what another one has made of them: "logsigmoid", "sigmoid"."""

    function: str
    made_by: str
    place: Place = NOWHERE


@dataclass
class SquashesFound:
    """Those of a step; once a line."""

    calls: list[Squash] = field(default_factory=list)


@dataclass
class LinedUp:
    """The positions of a criterion that change when one sample is exchanged for another.

    Args:
        answers: whose answer changes.
        targets: whose target changes.
        both: whose answer and target do.
        place: of the criterion.
    """

    answers: int
    targets: int
    both: int
    place: Place = NOWHERE


@dataclass
class TargetsBeyond:
    """Targets of a cross-entropy of yes and no that are less than 0 or more than 1, and that the loss counts.

    Args:
        beyond: how many.
        number: of all targets.
        low: the least target.
        high: the greatest.
    """

    beyond: int
    number: int
    low: float
    high: float
    place: Place = NOWHERE


@dataclass
class WeightTypes:
    """The parameters of 64 bits, by name, of how many, and the precision that the Trainer is asked for."""

    double: list[str]
    number: int
    precision: str


@dataclass(frozen=True)
class PaddingMask:
    """A mask of attention, beside the padding of the token ids that it is for.

    Args:
        inverted: whether it leaves out exactly what is no padding.
        inside: how many rows it leaves something out of that stands before a token which it keeps, and after one.
        token: the id of all that, None where there are several.
        rows: how many there are.
    """

    inverted: bool
    inside: int = 0
    token: int | None = None
    rows: int = 0
    place: Place = NOWHERE


@dataclass
class PaddingMasks:
    calls: list[PaddingMask]


@dataclass
class PlaceInBatch:
    """The loss of a batch, and that of the same samples in another order.

    Args:
        moved: the loss where all samples are moved by some places; the same number where it differs by rounding only.
    """

    samples: int
    loss: float
    moved: list[float]
    place: Place = NOWHERE


@dataclass
class AmongOthers:
    """Some samples, each shown to the network alone and among the others.

    Args:
        apart: how many are answered otherwise among others.
        over_time: types of the layers that read neighbours or go on from position to position, where samples were
            padded to the length of others.
        collated: place of the collate function.
        operation: the first that made something else of a sample among others; "" where none is known.
        place: of that operation.
    """

    samples: int
    apart: int
    over_time: list[str] = field(default_factory=list)
    collated: Place = NOWHERE
    operation: str = ""
    place: Place = NOWHERE


@dataclass
class ComparedTensor:
    """A tensor of a batch that the loss depends on and that no layer sees: a target, a mask, a weight.

    Args:
        leaf: place in the batch.
        belongs: whether the loss is another one where its entries belong to other samples.
        read: how many of its numbers the loss depends on; None where it has no gradient.
        unread: how many it does not.
        filling: the one number that all of those have which the loss depends on; None where they are several.
        share: of all its numbers that are this one.
        meeting: the operation in which it meets what the network answers: "sub of 64x1x7 with 64x7".
        place: of that operation, or of `training_step`.
    """

    leaf: str
    belongs: bool = True
    read: int | None = None
    unread: int = 0
    filling: float | None = None
    share: float = 0.0
    meeting: str = ""
    place: Place = NOWHERE


def by(shape: Shape) -> str:
    """Return "64x1x28x28", or "scalar"."""
    return "x".join(map(str, shape)) or "scalar"


def broadcast(one: Shape, two: Shape) -> Shape | None:
    """Return the shape of an elementwise operation of two tensors, or None where there is none."""
    sizes = list(zip_longest(reversed(one), reversed(two), fillvalue=1))
    if any(mine != other and 1 not in (mine, other) for mine, other in sizes):
        return None
    return tuple(other if mine == 1 else mine for mine, other in reversed(sizes))


@dataclass
class LinearPair:
    """Two linear layers, the second of which reads what the first returns, and nothing else does.

    Args:
        width: of the first one's input; between: of its output; out: of the second one's output.
        place: of the second.
        first: module path of the first.
    """

    width: int
    between: int
    out: int
    place: Place = NOWHERE
    first: str = ""


@dataclass
class LinearPairsFound:
    pairs: list[LinearPair]
