import inspect
import re
from collections.abc import Iterator
from contextlib import suppress
from types import SimpleNamespace
from typing import Any

import numpy as np
from torch import Tensor, nn
from torch.utils.data import DataLoader

from training_checklist.instruments import (
    EpochListener,
    Example,
    MappedDataset,
    Small,
    TwoEpochs,
    hooks_of,
    is_own_class,
    splits,
)
from training_checklist.lightning import LightningModule, Trainer
from training_checklist.probe import Fix, Hit, Hits, Limits, Probe

DEPTH = 3  # of objects in a dataset: its transforms, and what they are made of
MOST = 16  # parts of a list, or numbers of a tensor, that are settings rather than data
BETWEEN = ("on_train_epoch_end", "on_validation_end", "on_validation_epoch_end", "on_train_epoch_start")
LOADING = ("__iter__", "__next__", "__getitem__", "__getitems__")
ASSIGNED = re.compile(r"self\.(\w+)\s*[-+*/]?=[^=]")
OF_ARRAYS = (Tensor, np.ndarray, nn.Module)


class ChangedDataset(EpochListener):
    """Sees which plain attributes of the training set change between two epochs, and not by loading.

    Attributes:
        changes: "strength: 0.0 -> 0.1".
    """

    def __init__(self, run: TwoEpochs) -> None:
        super().__init__(run)
        self.changes: list[str] = []
        self.known: dict[str, Any] = {}  # when the last step was over
        self.moving: set[str] = set()  # what changes while batches are loaded

    def on_train_batch_start(self, trainer: Trainer, pl_module: LightningModule, batch: Any, batch_idx: int) -> None:
        now = values_of(trainer)
        different = [name for name, value in now.items() if name in self.known and value != self.known[name]]
        if batch_idx:
            self.moving.update(different)
        else:
            own = moved_by_loading(trainer)
            by_hooks = [name for name in different if name not in self.moving and name.rpartition(".")[2] not in own]
            self.changes += [f"{name}: {self.known[name]} -> {now[name]}" for name in by_hooks]
        self.known = now

    def on_train_batch_end(self, trainer: Trainer, *_: Any) -> None:
        now = values_of(trainer)
        self.moving.update(name for name, value in now.items() if self.known.get(name, value) != value)
        self.known = now


def loaders(trainer: Trainer) -> list[DataLoader]:
    return [split.loader for split in splits("train", trainer.train_dataloader)]


def moved_by_loading(trainer: Trainer) -> set[str]:
    """Return the attributes that training sets assign to themselves where samples are loaded."""
    found: set[str] = set()
    for loader in loaders(trainer):
        for name in LOADING:
            with suppress(TypeError, OSError):  # not written in Python
                found.update(ASSIGNED.findall(inspect.getsource(getattr(type(loader.dataset), name, None))))
    return found


def values_of(trainer: Trainer) -> dict[str, Any]:
    """Return the plain values that training sets keep, by name."""
    return {name: value for loader in loaders(trainer) for name, value in plain(loader.dataset, "dataset", DEPTH)}


def plain(thing: Any, path: str, depth: int) -> Iterator[tuple[str, Any]]:
    for name, value in getattr(thing, "__dict__", {}).items():
        if name.startswith("_") and not is_own_class(type(thing)):
            continue  # a library's note for itself, as of what a transform has drawn last
        yield from of_part(value, f"{path}.{name}", depth)


def of_part(value: Any, path: str, depth: int) -> Iterator[tuple[str, Any]]:
    if isinstance(value, (bool, int, float, str)):
        yield path, value
    elif isinstance(value, Tensor) and value.numel() <= MOST and not value.is_shared():
        yield path, value.tolist()
    elif isinstance(value, (list, tuple)) and len(value) <= MOST:
        for index, each in enumerate(value):
            yield from of_part(each, f"{path}[{index}]", depth)
    elif depth > 1 and not isinstance(value, (type, *OF_ARRAYS)):
        yield from plain(value, path, depth - 1)


def detect(run: TwoEpochs, limits: Limits) -> Hits:
    changes = run.heard().changes
    for loader in loaders(run.trainer) if changes else ():
        workers, persistent = vars(loader).get("asked", (loader.num_workers, loader.persistent_workers))
        if workers and persistent:
            yield Hit(
                f"the training set is changed from one epoch to the next, {', '.join(changes[:3])}, and its {workers} "
                "persistent workers keep the copies that they began with",
                hooks_of(run.trainer, run.pl_module, BETWEEN).beside(loader="train_dataloader"),
            )


class Ramping(Small):
    """Augments more strongly from epoch to epoch."""

    persistent = True

    def train_dataloader(self) -> DataLoader:
        self.dataset = MappedDataset(lambda index, inputs, label: (inputs, label))
        self.dataset.strength = 0.0
        return DataLoader(self.dataset, 16, num_workers=2, persistent_workers=self.persistent)

    def on_train_epoch_start(self) -> None:
        self.dataset.strength = 0.1 * self.current_epoch


class Drawn(Ramping):
    """Has a transform of a library's, which notes what it has drawn last where a sample is loaded."""

    def on_train_epoch_start(self) -> None:
        self.dataset.transform = getattr(self.dataset, "transform", SimpleNamespace())
        self.dataset.transform._drawn = self.current_epoch % 2 == 0


PROBE = Probe(
    item="learning",
    question="Do the DataLoader's workers see what hooks change in the training set between epochs?",
    why="each worker has a copy of the dataset from when it was started: with persistent_workers=True, before the "
    "first epoch",
    fix=Fix("persistent_workers=False, or keep the value in shared memory: torch.tensor(0.0).share_memory_()"),
    listener=ChangedDataset,
    detect=detect,
    faulty=Example(Ramping, None),
    healthy=Example(type("Renewed", (Ramping,), {"persistent": False}), None),
    also_healthy=(Example(Drawn, None),),
)
