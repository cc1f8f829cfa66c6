import ast
import inspect
from collections.abc import Iterator
from typing import Any

from torch import nn

from training_checklist.instruments import LayerModes, TwoEpochs, is_own_class, of_function, of_self, tree_of, with_part
from training_checklist.lightning import LightningModule, Trainer
from training_checklist.probe import WARNING, CannotJudge, Fix, Hit, Hits, Limits, Place, Probe

AMID_TRAINING = (
    "on_train_start",
    "on_train_epoch_start",
    "on_train_batch_start",
    "training_step",
    "on_before_zero_grad",
    "on_before_backward",
    "on_after_backward",
    "on_before_optimizer_step",
    "on_train_batch_end",
    "on_train_epoch_end",
)
MODULE = ("pl_module", "model", "module")  # as hooks of callbacks call their LightningModule
WITH_MODES = (nn.modules.dropout._DropoutNd, nn.modules.batchnorm._BatchNorm, nn.RNNBase, nn.MultiheadAttention)


def detect(run: TwoEpochs, limits: Limits) -> Hits:
    """Also hooks that call eval() every so many steps alone."""
    if run.heard().eval_in_training:
        raise CannotJudge("the line that puts modules into eval mode is known already")
    for call, place in left_in_eval(run.trainer, run.pl_module):
        yield Hit(f"{call} amid training, and no train() after it: what follows trains in eval mode", place)


def left_in_eval(trainer: Trainer, pl_module: LightningModule) -> Iterator[tuple[str, Place]]:
    """Yield what calls of eval() stand for which no train() follows, and where they are."""
    held = [p for optimizer in trainer.optimizers for group in optimizer.param_groups for p in group["params"]]
    trained = {id(p) for p in held if p.requires_grad}  # what is frozen is kept in eval mode on purpose
    for thing in (pl_module, *trainer.callbacks):
        if not is_own_class(type(thing)):
            continue
        functions = [*functions_amid_training(type(thing))]
        put_back = {ast.unparse(call.func.value) for each in functions for call in calls_of(each, "train")}
        for function in functions:
            for call in lone_evals(function):
                # A step of several parts may put a network into one mode in one of them, and back in another.
                if not put_back.isdisjoint({ast.unparse(call.func.value), "self"}):
                    continue
                module = meant(call.func.value, thing, trainer, pl_module)
                if isinstance(module, nn.Module) and depends_on_mode(module, trained):
                    start = of_function(function)
                    source = ast.unparse(call)
                    yield source, start.beside(line=start.line + call.lineno - 1, source=source)


def functions_amid_training(kind: type) -> Iterator[Any]:
    """Yield the hooks of a class that run amid training, and its methods that they call."""
    for name in AMID_TRAINING:
        hook = getattr(kind, name, None)
        if hook is None or not is_own_class(owner_of(kind, name)):
            continue
        yield hook
        for name in of_self(hook):
            method = getattr(kind, name, None)
            if inspect.isfunction(method) and name not in AMID_TRAINING and is_own_class(owner_of(kind, name)):
                yield method


def owner_of(kind: type, name: str) -> type:
    return next((each for each in kind.__mro__ if name in vars(each)), object)


def lone_evals(function: Any) -> list[ast.Call]:
    """Return the calls of eval() in a function that nowhere calls train()."""
    if calls_of(function, "train", "requires_grad_"):
        return []
    return [call for call in calls_of(function, "eval") if not call.args]


def calls_of(function: Any, *methods: str) -> list[ast.Call]:
    calls = [node for node in ast.walk(tree_of(function)) if isinstance(node, ast.Call)]
    return [node for node in calls if isinstance(node.func, ast.Attribute) and node.func.attr in methods]


def meant(node: ast.AST, thing: Any, trainer: Trainer, pl_module: LightningModule) -> Any:
    """Return what an expression of a hook stands for, None where that is not known."""
    if isinstance(node, ast.Name):
        known = {"self": thing, "trainer": trainer} | dict.fromkeys(MODULE, pl_module)
        return known.get(node.id)
    if isinstance(node, ast.Attribute):
        return getattr(meant(node.value, thing, trainer, pl_module), node.attr, None)
    return None


def depends_on_mode(module: nn.Module, trained: set[int]) -> bool:
    """Whether a module trains, and is more than norms that are to keep their statistics."""
    parts = list(module.modules())
    others = any(
        id(p) in trained
        for part in parts
        if not isinstance(part, nn.modules.batchnorm._BatchNorm)
        for p in part.parameters(recurse=False)
    )
    return others and any(isinstance(part, WITH_MODES) for part in parts)


class Sampling(with_part(lambda: nn.Dropout(0.5), lambda dropout, answers: dropout(answers))):
    def on_train_batch_end(self, outputs: Any, batch: Any, batch_idx: int) -> None:
        if batch_idx % 1000 == 999:
            self.eval()
            self(batch[0])


class PuttingBack(Sampling):
    def on_train_batch_end(self, outputs: Any, batch: Any, batch_idx: int) -> None:
        if batch_idx % 1000 == 999:
            self.eval()
            self(batch[0])
            self.train()


class InTurns(Sampling):
    """Has a method that asks it in eval mode, and one that trains it."""

    def training_step(self, batch: Any, batch_idx: int) -> Any:
        self.ask(batch)
        return self.learn(batch)

    def ask(self, batch: Any) -> None:
        self.part.eval()
        self(batch[0])

    def learn(self, batch: Any) -> Any:
        self.part.train()
        return self.loss(self(batch[0]), batch[1])

    def on_train_batch_end(self, outputs: Any, batch: Any, batch_idx: int) -> None:
        self.part.train()


PROBE = Probe(
    question="Is train() called after each eval() that a hook calls during training?",
    why="dropout does nothing from then on, and BatchNorm keeps its statistics; Lightning leaves eval() as it is",
    severity=WARNING,
    listener=LayerModes,
    detect=detect,
    may_be_wrong="a backbone is kept in eval mode on purpose in fine-tuning; where its parameters are frozen, too, by "
    "requires_grad_(False), the rule is silent",
    fix=Fix("was = module.training; module.eval(); ...; module.train(was)"),
    faulty=Sampling,
    healthy=PuttingBack,
    also_healthy=(InTurns,),
)
