"""The first steps of a training: who has which gradient, what becomes of it, and what steps make of it."""

import inspect
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from torch import Tensor, nn
from torch.nn.parameter import is_lazy

from training_checklist.engines.graph import leaf_tensors
from training_checklist.engines.own_code import is_own
from training_checklist.engines.parameter_names import gather, shown
from training_checklist.engines.places import of_function
from training_checklist.finding import NOWHERE, Place
from training_checklist.lab.along_depth import AlongDepth, Signals
from training_checklist.lab.backward_graph import BackwardGraph
from training_checklist.lab.effects import copied_parameters, leeway
from training_checklist.lab.flat_units import FlatUnits
from training_checklist.lab.holdings import Holdings, is_of_library
from training_checklist.lab.optimizer_steps import OptimizerSteps
from training_checklist.lab.shared import Subject, once
from training_checklist.lightning import LightningModule, Trainer, is_overridden
from training_checklist.probe import REMARK, WARNING, CannotJudge

MIXERS = (nn.Linear, nn.Conv1d, nn.Conv2d, nn.Conv3d)  # in which nobody means a constant but 0
BETWEEN = ("on_after_backward", "on_before_optimizer_step", "configure_gradient_clipping", "optimizer_step")


@dataclass
class NormPass:
    """A call of batch normalisation.

    Args:
        value: its input.
        is_used: whether the backward pass has come to what it returned.
    """

    value: Tensor
    place: Place
    is_used: bool = False

    def use(self, gradient: Tensor) -> None:
        """Note that a gradient has come, and leave it as it is."""
        self.is_used = True


class FirstSteps(Subject):
    """What is known of the first steps, from the start of training on.

    Attributes:
        holdings: all parameters, and which optimizer holds them.
        graph: of the first step, with the operations that made it.
        missing: names of the parameters without a gradient in any step.
        after_first: `holdings`, once the first step is over.
        size: of the first batch, None where its tensors do not share a first dimension.
        calls: of the outermost modules in the first step, with their arguments.
        batch_norms: calls of batch normalisation in the mode of training in the first step, of each running mean.
        watched: all optimizers; `optimizers`: those that have taken steps.
        norms: of every parameter's gradient by step, None where there is none.
        losses: of each batch.
        losses_of: of a parameter: what the first step of its optimizer follows; `loss`: the last of the first step.
        constant: weights that begin with equal rows, and whether they are not 0.
        closed: scales that begin at 0, of a norm or a branch: what lies before one has no gradient till it grows.
        equal: those of them whose rows have not parted in any step.
        last: ids of the weights that make answers: their rows part by what each is to answer.
        reaching: backward passes of the first step that led to a trained parameter.
        is_sound: whether nothing was found that could be the cause of what else is seen.
    """

    missing: list[str]
    size: int | None
    after_first: Holdings
    batch_norms: list[list[NormPass]]
    watched: list[OptimizerSteps]
    optimizers: list[OptimizerSteps]
    norms: dict[str, list[float | None]]
    is_sound: bool

    def __init__(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self.trainer, self.pl_module = trainer, pl_module
        self.copied = copied_parameters(pl_module)
        self.holdings, self.graph = Holdings(pl_module, trainer.optimizers), BackwardGraph(pl_module)
        self.units = FlatUnits()
        self.calls: list[tuple[nn.Module, tuple[Any, Any]]] = []
        self.losses: list[float] = []
        self.losses_of: dict[str, Tensor] = {}
        self.loss: Tensor | None = None
        self.constant: dict[str, bool] = {}
        self.closed: list[str] = []
        self.equal: set[str] = set()
        self.last: set[int] = set()
        self.reaching = 0
        self.signals: Signals | None = None

    @property
    def configured(self) -> Place:
        return of_function(type(self.pl_module).configure_optimizers)

    @property
    def steps(self) -> int:
        return max(map(len, self.norms.values()))

    def always(self, norm: float | None) -> list[str]:
        """Return the parameters whose gradient had this norm in all steps."""
        return [name for name, norms in self.norms.items() if all(value == norm for value in norms)]

    def ask_for_symptoms(self) -> None:
        if not self.is_sound:
            raise CannotJudge("what was found in these steps may be its cause")

    def along_depth(self) -> AlongDepth:
        self.ask_for_symptoms()
        if len(self.trainer.optimizers) > 1:
            raise CannotJudge("of several losses, none has one depth")
        zeros = [name for name, is_other in self.constant.items() if not is_other]
        if zeros:
            raise CannotJudge(f"{shown(zeros)} began at 0, and gradients pass as it grows")
        return AlongDepth(self.signals.medians())

    def with_updates(self) -> list[OptimizerSteps]:
        """Return the optimizers whose steps were measured."""
        self.ask_for_symptoms()
        found = [each for each in self.optimizers if each.ratios]
        if not found or not self.losses:
            raise CannotJudge("no step was measured, or no loss is known")
        return found

    def between(self) -> Place:
        """Return the project's own code that runs between backward and the optimizer's step."""
        if not self.pl_module.automatic_optimization:
            return of_function(type(self.pl_module).training_step)
        parts = [self.pl_module, *self.trainer.callbacks]
        hooks = [getattr(type(part), hook) for part in parts for hook in BETWEEN if is_overridden(hook, part)]
        own = [of_function(hook) for hook in hooks if is_own(inspect.getsourcefile(inspect.unwrap(hook)) or "<")]
        if not own:
            return Place(note="no hook of the project's own comes between backward and the step")
        others = ", ".join(place.function for place in own[1:])
        return own[0].beside(note=f"or {others}" if others else "")

    def zeroing(self) -> Place:
        """Return what should have zeroed gradients."""
        if not self.pl_module.automatic_optimization:
            return of_function(type(self.pl_module).training_step)
        if is_overridden("optimizer_zero_grad", self.pl_module):
            return of_function(type(self.pl_module).optimizer_zero_grad)
        return Place(note="a callback, or the optimizer")

    def equal_rows(self) -> tuple[list[str], list[str]]:
        """Return the weights all of whose rows are equal after the last step, and those that began with a constant.

        Those of a head alone part in the first step.
        """
        held, zero = [name for name in self.constant if self.holdings.holders(name)], self.always(0)
        still = [name for name in held if name in self.equal and (any(self.norms.get(name, ())) or name in zero)]
        owner = {name: self.pl_module.get_submodule(name.rpartition(".")[0]) for name in held}
        filled = [name for name in held if self.constant[name] and isinstance(owner[name], MIXERS)]
        are_hidden = any(id(self.holdings.trained[name]) not in self.last for name in filled)
        return still, filled if are_hidden else []

    def fills_optimizer(self, names: list[str]) -> bool:
        """Whether they are all that some optimizer has, so that its steps do nothing."""
        missing = {id(self.holdings.trained[name]) for name in names}
        return any(held and held <= missing for held in self.holdings.held)


@dataclass(frozen=True)
class Cause:
    """Why parameters have no gradient.

    Args:
        how: "cut", "no_grad" or "unused".
        operation: that cuts them off.
        between: where it stands among the modules, "between net.a and net.b".
    """

    how: str
    operation: str = ""
    place: Place = NOWHERE
    between: str = ""


@dataclass
class Missing:
    """Parameters without a gradient.

    Args:
        path: of the modules that they are, with commas between.
        names: of them.
        x
    """

    path: str
    names: list[str]
    cause: Cause
    leeway: str | None


@once
def missing_gradients(steps: FirstSteps) -> list[Missing]:
    """Return the parameters without a gradient by cause: the cut on their way to the loss, or that there is none."""
    trained, missing, root = steps.holdings.trained, steps.missing, steps.pl_module
    causes: dict[Cause, list[str]] = {}
    for name in (name for name in missing if is_lazy(trained[name]) or trained[name].numel()):
        cause = cause_of(steps, name)
        if cause.how != "cut" and not steps.copied.get(name, set()) <= set(missing):
            continue  # a copy of weights that do get a gradient, such as those of an earlier step
        if not is_of_library(root, name) or steps.fills_optimizer(missing):
            causes.setdefault(cause, []).append(name)
    found = []
    for cause, names in causes.items():
        paths = [path for path, _ in gather(names, trained)]
        by_hand = not root.automatic_optimization and not steps.fills_optimizer(names)
        in_lists = {leeway(root, path) for path in paths} if cause.how == "unused" else {None}
        of_lists = next(each for each in (None, WARNING, REMARK) if each in in_lists)  # as the gravest of them
        found.append(Missing(", ".join(paths), names, cause, of_lists or (WARNING if by_hand else None)))
    return found


def cause_of(steps: FirstSteps, name: str) -> Cause:
    graph = steps.graph
    cut = graph.cut(steps.holdings.trained[name], steps.losses_of.get(name, steps.loss))
    if cut is None:
        return Cause("unused")
    owner = f"{name.rpartition('.')[0]}."
    outer = next((path for path in graph.without_grad if owner.startswith(f"{path}.")), None)
    if outer is not None:
        return Cause("no_grad", outer, graph.without_grad[outer])
    return Cause("cut", cut.operation, cut.place, cut.between)


def missing_in_part(steps: FirstSteps) -> Iterator[Missing]:
    """Yield what has no gradient while other parameters have one."""
    found = missing_gradients(steps)
    if sum(len(group.names) for group in found) < len(steps.holdings.trained):
        yield from found


def new_loss(steps: FirstSteps) -> tuple[str, Place] | None:
    """Return which operation made the loss that leads to no parameter, and where."""
    leaves = leaf_tensors([] if steps.loss is None or steps.reaching else [steps.loss])
    return next((steps.graph.leaves[leaf] for leaf in leaves if leaf in steps.graph.leaves), None)
