"""The line of the project's own code that is nearest to a place which names none."""

import ast
import inspect
import os
import re
from collections.abc import Iterator
from typing import Any

from torch import nn
from torch.utils.data import Dataset

from training_checklist.engines.own_code import is_own_class
from training_checklist.engines.places import of_frame, of_function, of_line, own_frame
from training_checklist.engines.source_trees import source_tree
from training_checklist.engines.splits import splits
from training_checklist.finding import NOWHERE, Place
from training_checklist.lightning import Trainer, is_overridden

LOGGED = re.compile(r"self\.log\('([^']+)'")
LOADER = re.compile(r"(train|val|test)_dataloader")


class Nearest:
    """Names it for what a Trainer trains: made while `fit`, whose call it knows then, is at work."""

    def __init__(self, trainer: Trainer) -> None:
        self._trainer = trainer
        frame = own_frame()
        self._call = NOWHERE if frame is None else of_frame(frame)

    def to(self, place: Place) -> Place:
        """Return the class of the dataset or module that a place names, or what makes it; else the call of `fit`.

        An empty place, where the place itself names a line of a file that is there, or a file that the run has written.
        """
        if os.path.isfile(place.file) and (place.line or not place.file.endswith(".py")):
            return NOWHERE
        return next((found for found in self._owners(place) if os.path.isfile(found.file)), self._call)

    def _owners(self, place: Place) -> Iterator[Place]:
        model, source = self._trainer.lightning_module, self._trainer.datamodule or self._trainer.lightning_module
        if loader := LOADER.match(place.loader):
            yield from self._of_loader(place.loader, loader[1])
            yield from overridden(source, loader[0])
        if place.module or place.parameter:
            path = place.module.partition(" ")[0] or place.parameter.partition(",")[0]
            yield from (of_function(type(each)) for each in along(model, path) if is_own_class(type(each)))
        if logged := LOGGED.match(place.source):
            yield from logging_lines(type(model), logged[1])
        if place.key.startswith(("optimizer.", "lr_scheduler.", "scheduler.")):
            yield from overridden(model, "configure_optimizers")

    def _of_loader(self, name: str, stage: str) -> Iterator[Place]:
        loaders = getattr(self._trainer, "train_dataloader" if stage == "train" else f"{stage}_dataloaders")
        for split in splits(stage, loaders):
            if split.name == name:
                yield from (of_function(type(each)) for each in inside(split.dataset) if is_own_class(type(each)))


def overridden(owner: Any, hook: str) -> Iterator[Place]:
    """Yield where the project's own version of a hook is, if there is one."""
    if is_overridden(hook, owner):
        yield of_function(getattr(owner, hook))


def logging_lines(kind: type, name: str) -> Iterator[Place]:
    """Yield the lines of a class of the project, and of those that it extends, that log a name."""
    for each in filter(is_own_class, kind.__mro__):
        try:
            file = inspect.getsourcefile(each) or ""
        except (TypeError, OSError):  # made in a notebook or by exec
            continue
        for node in ast.walk(source_tree(file)):
            is_call = isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)
            if is_call and node.func.attr in ("log", "log_dict") and name in texts(node):
                yield of_line(file, node.lineno)


def texts(node: ast.AST) -> set[Any]:
    return {each.value for each in ast.walk(node) if isinstance(each, ast.Constant)}


def along(model: nn.Module, path: str) -> list[nn.Module]:
    """Return the modules on the way to a module or parameter, the innermost first; the model itself is the last."""
    found = [model]
    for name in path.split("."):
        inner = found[0]._modules.get(name)
        if inner is None:
            break
        found.insert(0, inner)
    return found


def inside(dataset: Any) -> Iterator[Any]:
    """Yield a dataset, and those that it is a part or the sum of: `Subset` and `ConcatDataset` hold others."""
    yield dataset
    held = vars(dataset).values() if isinstance(dataset, Dataset) else ()
    for value in held:
        for each in value if isinstance(value, (list, tuple)) else (value,):
            if isinstance(each, Dataset) and each is not dataset:
                yield from inside(each)
