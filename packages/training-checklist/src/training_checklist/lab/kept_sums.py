"""What a module adds up over an epoch of validation by itself, and has not set back when the next one begins."""

import ast
import inspect
import re
from collections.abc import Iterator
from contextlib import suppress
from types import FunctionType
from typing import Any

from torch import Tensor, nn
from torch.nn.parameter import is_lazy

from training_checklist.engines.batches import is_dense
from training_checklist.engines.own_code import is_own_class
from training_checklist.engines.source_trees import tree_of
from training_checklist.lab.epochs import EpochListener
from training_checklist.lab.two_epochs import TwoEpochs
from training_checklist.lightning import LightningModule, Trainer

LOGS = {"log", "log_dict"}
ADDS = re.compile(r"self\.(\w+)\s*\+=|self\.(\w+)\.(?:append|extend|add_)\(|self\.(\w+) = self\.\3 \+")
ENDS = ("on_validation_epoch_end", "on_validation_end")


class Sums(EpochListener):
    """Keeps numbers, and lengths of lists, that the module has among its attributes in each epoch of validation.

    Attributes:
        epochs: what they were before its first batch and after its last one, and how many batches there were.
    """

    def __init__(self, run: TwoEpochs) -> None:
        super().__init__(run)
        self.epochs: list[tuple[dict[str, float], dict[str, float], int]] = []

    def on_validation_batch_start(
        self, trainer: Trainer, pl_module: LightningModule, batch: Any, batch_idx: int, dataloader_idx: int = 0
    ) -> None:
        if batch_idx == dataloader_idx == 0:
            self.epochs.append((sizes(pl_module), {}, 0))

    def on_validation_batch_end(self, trainer: Trainer, pl_module: LightningModule, *_: Any) -> None:
        begun, _, batches = self.epochs[-1]
        self.epochs[-1] = begun, sizes(pl_module), batches + 1

    def kept(self) -> Iterator[tuple[FunctionType, list[str]]]:
        """Yield the functions in which an epoch ends, with what they read of before: "self.seen is 64"."""
        if len(self.epochs) < 2:
            return
        (begun, ended, batches), (again, last, _) = self.epochs[-2:]
        kind, told = type(self.run.pl_module), dict[str, str]()
        for name in sorted(ended):
            is_list = isinstance(getattr(self.run.pl_module, name, None), list)
            grown = ended[name] - begun.get(name, 0.0)
            # What grows by one a batch numbers the batches, unless it is a list.
            if again.get(name) == ended[name] < last.get(name, 0.0) and grown > 0 and (is_list or grown != batches):
                told[name] = f"self.{name} {'holds' if is_list else 'is'} {ended[name]:g}"
        added = added_to(kind) & told.keys() if told else ()
        for function in ending_hooks(kind) if added else ():
            names = (name for name in sorted(added) if name in function.__code__.co_names)
            if read := [told[name] for name in names if not is_set_back_where_read(function, name)]:
                yield function, read


def sizes(module: nn.Module) -> dict[str, float]:
    """Return the numbers of a module's own attributes, and the lengths of its lists, by name."""
    found = {}
    buffers = [each for each in module.named_buffers(recurse=False) if not is_lazy(each[1])]
    for name, value in (*vars(module).items(), *buffers):
        if isinstance(value, list):
            found[name] = float(len(value))
        elif isinstance(value, (int, float)) or (
            isinstance(value, Tensor) and is_dense(value) and value.shape == () and not value.is_complex()
        ):
            found[name] = float(value)
    return found


def added_to(kind: type) -> set[str]:
    """Return the attributes of self that code of a class adds to, and does not only assign."""
    parts = [part for each in kind.__mro__ if is_own_class(each) for part in vars(each).values()]
    found = set()
    for function in parts:
        if isinstance(function, FunctionType):
            with suppress(OSError, TypeError):  # made by exec
                found.update(*ADDS.findall(inspect.getsource(function)))
    return found


def is_set_back_where_read(function: FunctionType, name: str) -> bool:
    """Whether code reads an attribute only under conditions under which it sets it back, too, as for one logger."""

    def is_it(node: ast.AST, context: type) -> bool:
        return isinstance(node, ast.Attribute) and node.attr == name and isinstance(node.ctx, context)

    def is_cleared(node: ast.AST) -> bool:
        return isinstance(node, ast.Attribute) and node.attr == "clear" and is_it(node.value, ast.Load)

    nodes = [*ast.walk(tree_of(function))]
    cleared = {id(node.value) for node in nodes if is_cleared(node)}
    reads = {id(node) for node in nodes if is_it(node, ast.Load)} - cleared
    for node in nodes:
        inside = [*ast.walk(node)] if isinstance(node, ast.If) else []
        if any(is_it(each, ast.Store) or is_cleared(each) for each in inside):
            reads -= {id(each) for each in inside}
    return not reads


def ending_hooks(kind: type) -> Iterator[FunctionType]:
    """Yield the functions of a class of the project in which an epoch of validation ends, if they log anything."""
    waiting, found = list(ENDS), {}
    while waiting:
        name = waiting.pop()
        owner = next((each for each in kind.__mro__ if name in vars(each)), object)
        function = vars(owner).get(name)
        if is_own_class(owner) and isinstance(function, FunctionType) and name not in found:
            found[name] = function
            waiting += function.__code__.co_names
    if any(not LOGS.isdisjoint(each.__code__.co_names) for each in found.values()):
        yield from found.values()
