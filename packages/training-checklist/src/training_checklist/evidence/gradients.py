"""The gradients of the first steps: who has which, what becomes of them, and what steps make of them."""

import math
from dataclasses import dataclass, field
from itertools import pairwise

from training_checklist.finding import NOWHERE, Place


@dataclass
class Holding:
    """Parameters that belong together.

    Args:
        path: of the module whose parameters they all are, or of the one parameter.
        names: of them.
        holders: how many optimizers hold them.
        reached: whether the loss depends on them.
    """

    path: str
    names: list[str]
    holders: int
    reached: bool = True


@dataclass
class FrozenModule:
    """A module whose own parameters are all frozen, and of which an optimizer holds some: it is to train later.

    Args:
        held: names of its parameters that an optimizer holds.
        left: of those that none holds.
    """

    path: str
    held: list[str]
    left: list[str]
    place: Place = NOWHERE


@dataclass
class Inventory:
    """What the optimizers hold when the first step has been made, after all hooks of the project's own.

    Args:
        holdings: parameters that not exactly one optimizer holds.
        strangers: shapes of tensors that optimizers hold and that are no parameters of the model.
        unregistered: shapes of parameters that are trained through and belong to no module, by the line that uses them.
        place: of configure_optimizers.
    """

    holdings: list[Holding]
    strangers: list[tuple[int, ...]] = field(default_factory=list)
    unregistered: list[tuple[list[tuple[int, ...]], Place]] = field(default_factory=list)
    place: Place = NOWHERE


@dataclass
class UnfrozenLater:
    """Parameters that the beginning of a later epoch unfreezes and no optimizer holds; none where it is given them.

    Args:
        place: of the hook.
    """

    names: list[str]
    epoch: int
    place: Place = NOWHERE


@dataclass
class Decays:
    """Parameters of one kind, by whether an optimizer that exempts some from weight decay exempts them.

    Args:
        kind: "biases" or "weights of norms".
        exempt: names of those whose group has no decay.
        decayed: names of the others.
        rate: of their decay.
        place: of configure_optimizers.
    """

    kind: str
    exempt: list[str]
    decayed: list[str]
    rate: float = 0.0
    place: Place = NOWHERE


@dataclass
class SharedLayers:
    """Layers that one container holds several times: their names and their type."""

    found: list[tuple[list[str], str]]


@dataclass
class Missing:
    """Parameters without a gradient.

    Args:
        path: of the modules that they are, with commas between.
        names: of them.
        how: "cut", "no_grad" or "unused".
        operation: that cuts them off.
        between: where it stands among the modules, "between net.a and net.b".
        meant: whether that may be meant: one of several in a list, or a step of which other optimizers have a part.
    """

    path: str
    names: list[str]
    how: str
    operation: str = ""
    place: Place = NOWHERE
    between: str = ""
    meant: bool = False


@dataclass
class MissingGradients:
    """Which of all trained parameters had no gradient in any step.

    Args:
        total: how many have one, or should.
        groups: those that have none, by cause.
        loss: where the loss was made that leads to none of them, and by which operation.
    """

    total: int
    groups: list[Missing] = field(default_factory=list)
    loss: tuple[str, Place] | None = None


@dataclass
class GradientNorms:
    """Norm of every parameter's gradient by step, None where there is none.

    Args:
        losses: of each batch.
        batches: that make a step.
        scaled: whether a scaler looks for its scale, and skips steps for it.
    """

    norms: dict[str, list[float | None]]
    losses: list[float]
    batches: int = 1
    scaled: bool = False


@dataclass
class ZeroGradients:
    """Gradients that were exactly 0 in all steps.

    Args:
        names: of the parameters.
        total: how many parameters had gradients.
        operation: that was given a gradient and passed on only zeros.
    """

    names: list[str]
    total: int
    operation: str = ""
    place: Place = NOWHERE


@dataclass
class EqualRows:
    """Weights all of whose rows are equal.

    Args:
        filled: those that began with one constant, not 0, in a layer that mixes its inputs.
        still: those that are so after the last step.
        zero: names of the parameters whose gradient was 0 in all steps.
        total: how many parameters had gradients.
    """

    filled: list[str]
    still: list[str]
    zero: list[str]
    total: int
    steps: int


@dataclass
class Effect:
    """One step of an optimizer.

    Args:
        made: norm of its gradients as backward made them.
        got: norm of what was left of them in the step.
        changed: whether a weight has another value after it.
        put_back: whether all of them had the old values again before the next step.
    """

    made: float
    got: float
    changed: bool
    put_back: bool = False


@dataclass
class OptimizerEffects:
    """What an optimizer's steps came to.

    Args:
        optimizer: its type.
        effects: by step.
        left_over: by step that follows a backward pass, whether gradients of the step before were still there in each
            of its backward passes.
        forgotten: between two steps each, how many counters in its state had gone back, of all.
        rate: its greatest learning rate in the last step, None where it has none.
        given: the learning rate that a schedule began with, None where there is no schedule.
        between: the project's hooks that come between backward and the step.
        zeroing: what should have zeroed gradients.
        backwards: backward passes that made gradients.
        discarded: how many of these gradients were zeroed before any step.
        several: whether there are other optimizers, whose losses may leave gradients in this one's weights.
    """

    optimizer: str
    effects: list[Effect]
    left_over: list[bool] = field(default_factory=list)
    forgotten: list[tuple[int, int]] = field(default_factory=list)
    rate: float | None = None
    between: Place = NOWHERE
    zeroing: Place = NOWHERE
    given: float | None = None
    backwards: int = 0
    discarded: int = 0
    several: bool = False


@dataclass
class Rounding:
    """What 16-bit weights keep of a step, of an optimizer that has no copy of them in 32 bits.

    Args:
        lost: share of the entries that a step of usual size would move, and that are the same numbers after it.
        of_each: likewise, of each parameter.
        rate: that usual learning rate.
    """

    optimizer: str
    lost: float
    of_each: dict[str, float]
    rate: float


@dataclass
class ClippedSteps:
    """Norms of the gradients in steps of a run that clips them by their norm.

    Args:
        limit: trainer.gradient_clip_val.
        norms: by step, of all gradients of one optimizer, after clipping.
        place: of configure_gradient_clipping, where the project has its own.
    """

    limit: float
    norms: list[float]
    place: Place = NOWHERE


@dataclass
class Updates:
    """How far steps move the weights, relative to their norm.

    Args:
        ratios: by step, at the learning rate that a schedule starts from.
        losses: of each batch.
        rate: the greatest learning rate.
        kept: least share of backward's gradient norm that a step was left with, by clipping.
    """

    ratios: list[float]
    losses: list[float]
    rate: float
    kept: float = 1.0


@dataclass
class SecondMoments:
    """What an optimizer of Adam's kind divides by.

    Args:
        eps: that it adds.
        median: root of the mean squared gradient, over all weights that have had a gradient.
        kept: share of backward's gradient norm that a step was left with, by clipping.
    """

    optimizer: str
    eps: float
    median: float
    kept: float = 1.0


@dataclass
class Betas:
    """The decay of the mean of gradients, and of their squares, of an optimizer of Adam's kind."""

    optimizer: str
    first: float
    second: float
    place: Place = NOWHERE


@dataclass
class AlongDepth:
    """Median norm of the gradient at the output of each module, in the order of their calls."""

    sizes: dict[str, float]

    @property
    def ends(self) -> tuple[list[float], list[float]]:
        """Return the sizes of the first third of the modules, and of the last; nothing where depth cannot be told."""
        values, third = list(self.sizes.values()), len(self.sizes) // 3
        # One module at an end would be one layer, and no depth.
        return (
            (values[:third], values[-third:]) if third > 1 and all(0 < size < math.inf for size in values) else ([], [])
        )

    def is_of_depth(self, ratio: float) -> bool:
        """Whether no single step between two modules makes most of a change by `ratio`.

        A head that starts from 0, or a scale, changes the size by itself: that is one layer's matter.
        """
        return 2 * math.log(self.steepest) < abs(math.log(ratio))

    def told(self, verb: str, ratio: float) -> tuple[str, Place]:
        """Return what happens to gradients along depth, and where."""
        (first, *_, last), (begin, end) = self.sizes, self.stretch
        each = ratio ** (1 / len(self.sizes))
        return (
            f"gradients {verb} along depth: {self.sizes[first]:.1e} at {first}, {self.sizes[last]:.1e} at {last}",
            Place(
                module=f"{first} to {last}",
                note=f"{len(self.sizes)} modules, a factor {each:.2g} each; most of it from {begin} to {end}",
            ),
        )

    @property
    def steepest(self) -> float:
        """Return the greatest factor between two modules, one way or the other."""
        logarithms = [math.log(size) for size in self.sizes.values()]
        return math.exp(max(abs(one - two) for one, two in pairwise(logarithms)))

    @property
    def stretch(self) -> tuple[str, str]:
        """Return the first and the last module of the shortest stretch that makes nine tenths of the change."""
        names, logarithms = list(self.sizes), [math.log(size) for size in self.sizes.values()]
        whole = logarithms[0] - logarithms[-1]
        ends = ((start, start + length) for length in range(1, len(names)) for start in range(len(names) - length))
        first, last = next((one, two) for one, two in ends if (logarithms[one] - logarithms[two]) / whole >= 0.9)
        return names[first], names[last]


@dataclass
class Mixing:
    """Calls of the outermost modules that were made again with one sample changed.

    Args:
        calls: how many.
        found: operation, place, and number of samples, where the outputs of others changed.
    """

    calls: int
    found: list[tuple[str, Place, int]] = field(default_factory=list)


@dataclass
class Units:
    """The units of an activation function.

    Args:
        name: of the function.
        dead: how many had a slope of exactly 0 for everything that was seen.
        total: how many there are.
        rows: how much was seen: samples, times positions where there are some.
    """

    name: str
    place: Place
    dead: int
    total: int
    rows: int


@dataclass
class Activations:
    """The units of all activation functions that can have a slope of 0."""

    functions: list[Units]


@dataclass
class NormInputs:
    """Layers of batch normalisation in the mode of training that met one and the same input twice in a step."""

    layers: int
    twice: list[Place] = field(default_factory=list)
