"""Layers that behave differently in training and in validation: the mode that they run in; norms before they run."""

import ast
import math
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import Any

from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.parameter import is_lazy
from torch.utils.weak import WeakIdKeyDictionary

from training_checklist.engines.around_step import around_step
from training_checklist.engines.dropouts import DropoutCalls
from training_checklist.engines.own_code import is_own
from training_checklist.engines.source_trees import reached, source_tree, tree_of
from training_checklist.engines.tracer import Call
from training_checklist.engines.uncopied import before_forward
from training_checklist.finding import NOWHERE, Place
from training_checklist.lab.code_reads import loaded
from training_checklist.lab.epochs import EpochListener
from training_checklist.lab.shared import once
from training_checklist.lab.two_epochs import TwoEpochs
from training_checklist.lightning import LightningModule, Trainer, is_overridden
from training_checklist.probe import CannotJudge

DRAWS = 3  # twice, a network may be asked for the loss and for metrics
HOOKS_OF_VALIDATION = ("on_validation_model_eval", "on_validation_start", "on_validation_epoch_start")
HOOKS_OF_VALIDATION += ("validation_step",)
WITH_DROPOUT = (nn.modules.dropout._DropoutNd, nn.RNNBase, nn.MultiheadAttention)


def leaves_modes_alone(pl_module: LightningModule) -> None:
    """Ask that no code of validation has `for m in ...: if ...: m.train()`, and no function such a loop over dropout.

    Raises:
        CannotJudge: some has, as where dropout that draws is kept on.
    """
    functions = map(tree_of, reached(pl_module, *HOOKS_OF_VALIDATION))
    choosing = (each for each in loops(functions) if any(isinstance(inner, ast.If) for inner in ast.walk(each)))
    trees = (source_tree(str(path)) for path in loaded() if is_own(str(path)))
    defined = (each for tree in trees for each in ast.walk(tree) if isinstance(each, ast.FunctionDef))
    of_dropout = loops(each for each in defined if "dropout" in ast.unparse(each).lower())
    if any(trains_what_it_picks(each) for each in chain(choosing, of_dropout)):
        raise CannotJudge("the project's code puts modules that it picks into training mode for validation")


def loops(trees: Iterable[ast.AST]) -> Iterator[ast.For]:
    return (node for tree in trees for node in ast.walk(tree) if isinstance(node, ast.For))


def trains_what_it_picks(loop: ast.For) -> bool:
    names = {f"{each.id}.train" for each in ast.walk(loop.target) if isinstance(each, ast.Name)}
    return any(isinstance(each, ast.Call) and ast.unparse(each.func) in names for each in ast.walk(loop))


class LayerModes(EpochListener):
    """Sees in which mode BatchNorms and layers with dropout run.

    Attributes:
        training_in_validation: paths of those in training mode during validation.
        training_in_training: of those in training mode in a training step.
        eval_line: the line of the project that has put the first one into eval mode that runs so in a training step.
        norm_sizes: by path of a BatchNorm, the numbers of samples and of values for each channel in the first batch.
        norms_without_data: BatchNorms whose weights have changed, and that validate by running statistics of 0 and 1.
        draws_answers: whether a validation step has asked a network for answers to the same input often, as Monte Carlo
            dropout does.
    """

    def __init__(self, run: TwoEpochs) -> None:
        super().__init__(run)
        module = run.pl_module
        self.training_in_validation: list[str] = []
        self.in_eval: list[str] = []
        self.in_turns: set[str] = set()  # of those: steps put them back, as a critic that only its own step trains
        self.eval_line = NOWHERE
        self.training_in_training: list[str] = []
        self.norm_sizes: dict[str, tuple[int, int]] = {}
        self.norms_without_data: list[str] = []
        self.dropouts, self.is_first = DropoutCalls(), False
        self.draws_answers, self._asked = False, dict[str, WeakIdKeyDictionary]()
        self.in_validation = Inside(self._asked.clear)
        self.in_step = Inside(partial(self._look_at_root, module))
        if is_overridden("validation_step", module):
            self.watching.enter_context(around_step(module, self.in_validation, step="validation_step"))
        self.watching.enter_context(around_step(module, self.in_step))
        for path, part in module.named_modules():
            if isinstance(part, (_BatchNorm, *WITH_DROPOUT)):
                self.watching.callback(before_forward(part, partial(self._look_at_mode, path, module)).remove)

        for path, part in module.named_children():
            self.watching.callback(before_forward(part, partial(self._look_at_inputs, path)).remove)

    @property
    def dropout_lines(self) -> list[Place]:
        """Where dropout is at work in validation."""
        return self.dropouts.places

    @property
    def eval_in_training(self) -> list[str]:
        """Paths of those in eval mode in a training step, with what is around them; the root if it alone is known."""
        root = type(self.run.pl_module).__name__
        found = [each for each in self.in_eval if each not in self.in_turns]
        return [each for each in found if each != root] or found

    @property
    def in_training_step(self) -> bool:
        """Validation may call the same method, in eval mode as it should be."""
        return self.in_step.entered and self.run.trainer.training

    def before(self, call: Call) -> None:
        self.dropouts.before(call)

    def on_train_batch_start(self, trainer: Trainer, pl_module: LightningModule, batch: Any, batch_idx: int) -> None:
        self.is_first = batch_idx == 0

    def _look_at_root(self, pl_module: LightningModule) -> None:
        """Layers that torch computes as one, as those of attention in eval mode, are not called one by one."""
        if not self.in_training_step:
            return
        modes = [module.training for module in pl_module.modules() if isinstance(module, (_BatchNorm, *WITH_DROPOUT))]
        if not pl_module.training and modes and not any(modes):
            self._add(type(pl_module).__name__, self.in_eval, pl_module)

    def _look_at_inputs(self, path: str, module: nn.Module, inputs: tuple[Any, ...]) -> None:
        if self.in_validation.entered and inputs and isinstance(inputs[0], Tensor):
            asked = self._asked.setdefault(path, WeakIdKeyDictionary())  # a cell is called at each step of a sequence
            asked[inputs[0]] = asked.get(inputs[0], 0) + 1
            self.draws_answers |= asked[inputs[0]] >= DRAWS

    def _look_at_mode(self, path: str, pl_module: LightningModule, module: nn.Module, inputs: tuple[Any, ...]) -> None:
        normalises = isinstance(module, _BatchNorm)
        if not normalises and not dropout_share(module):
            return
        if self.in_validation.entered:  # a hook may have norms take in training samples beside it
            if normalises and not module.training and has_never_seen_data(module):
                self._add(path, self.norms_without_data, module)
            if module.training and (not normalises or module.track_running_stats):
                self._add(path, self.training_in_validation, module)
        elif self.in_training_step and trainable(path, pl_module):  # hooks may look at answers in eval mode beside it
            around = pl_module.get_submodule(path.rpartition(".")[0])
            # A norm alone in eval mode keeps its statistics on purpose; dropout alone is rather forgotten.
            asleep = not module.training and (not around.training or not normalises)
            self._add(path, self.in_eval if asleep else self.training_in_training, module)
            if not asleep and path in self.in_eval and not self.is_first:  # at an epoch's start others wake it
                self.in_turns.add(path)
            if normalises and module.training and self.is_first and isinstance(inputs[0], Tensor):
                # Of the first batch: the last one of an epoch may be short.
                features = module.num_features if isinstance(module.num_features, tuple) else (module.num_features,)
                self.norm_sizes.setdefault(path, (len(inputs[0]), inputs[0].numel() // math.prod(features)))

    def _add(self, path: str, found: list[str], module: nn.Module) -> None:
        if path not in found:
            found.append(path)
            if found is self.in_eval and self.eval_line == NOWHERE:
                self.eval_line = self.run.switches.by.get(id(module), NOWHERE)


class Inside:
    """Whether it is entered; `begin` is called each time that it is."""

    entered = False

    def __init__(self, begin: Callable[[], None] = lambda: None) -> None:
        self.begin = begin

    def __enter__(self) -> None:
        self.entered = True
        self.begin()

    def __exit__(self, *error: object) -> None:
        self.entered = False


def dropout_share(layer: nn.Module) -> float:
    """Return which share of its values a layer leaves out in training mode."""
    return getattr(layer, "p", getattr(layer, "dropout", 0))


def has_never_seen_data(norm: _BatchNorm) -> bool:
    """Whether the running statistics of a norm are those that it was made with, and its weights are others."""
    if norm.running_mean is None or norm.weight is None or is_lazy(norm.weight):
        return False
    return is_untouched(norm) and not bool((norm.weight == 1).all())


def is_untouched(norm: _BatchNorm) -> bool:
    """Whether the running statistics of a norm are those that it was made with."""
    mean, variance = norm.running_mean, norm.running_var
    return is_lazy(mean) or (not bool(mean.any()) and bool((variance == 1).all()))


@dataclass
class Norm:
    """One BatchNorm that trains.

    Args:
        momentum: None: its statistics are the mean of all batches.
        tracks: whether it keeps running statistics.
        is_new: whether these are still what it was made with.
        batches: of the whole training.
    """

    path: str
    momentum: float | None
    tracks: bool
    is_new: bool
    batches: float


@once
def norms(run: TwoEpochs) -> list[Norm]:
    """Return what can be told of BatchNorms that train, before they run."""
    batches, found = run.trainer.estimated_stepping_batches * run.trainer.accumulate_grad_batches, []
    with suppress(TypeError, ZeroDivisionError):  # of a stream, or of loaders that nobody has made yet
        # limit_train_batches is for a try; what is built is built for whole epochs.
        batches *= max(len(run.trainer.train_dataloader) / run.trainer.num_training_batches, 1)
    for path, module in run.pl_module.named_modules():
        if isinstance(module, _BatchNorm) and trainable(path, run.pl_module):
            tracks = module.track_running_stats and module.running_mean is not None
            new = tracks and is_untouched(module)
            found.append(Norm(path, module.momentum, tracks, new, batches))
    return found


def trainable(path: str, root: nn.Module) -> bool:
    """Whether the innermost module around a path that has parameters has one that trains."""
    while not list(root.get_submodule(path).parameters()) and path:
        path = path.rpartition(".")[0]
    return any(parameter.requires_grad for parameter in root.get_submodule(path).parameters())
