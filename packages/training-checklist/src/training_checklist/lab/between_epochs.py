"""How long epochs are, and what hooks change in the training set from one to the next."""

import inspect
import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np
from torch import Tensor, nn
from torch.utils.data import DataLoader, Sampler

from training_checklist.engines.drawn_indices import DrawnIndices
from training_checklist.engines.hooks import hooks_of
from training_checklist.engines.splits import splits
from training_checklist.finding import NOWHERE, Place
from training_checklist.lightning import LightningModule, Trainer

DEPTH = 3  # of objects in a dataset: its transforms, and what they are made of
FEW = 16  # parts of a list, or numbers of a tensor, that are settings rather than data
BETWEEN = ("on_train_epoch_end", "on_validation_end", "on_validation_epoch_end", "on_train_epoch_start")
ENDING = ("on_train_batch_start",)
LOADING = ("__iter__", "__next__", "__getitem__", "__getitems__")
ASSIGNED = re.compile(r"self\.(\w+)\s*[-+*/]?=[^=]")
DRAWS = re.compile("seed|generator|rng|random|epoch|shuffle")
OF_ARRAYS = (Tensor, np.ndarray, nn.Module)


@dataclass
class EpochLength:
    """Training batches of the epochs that were watched.

    Args:
        asked: of each epoch.
        done: by epoch, those of which a step was made.
        ended: whether training was told to stop.
        hooks: the project's own that can end an epoch.
    """

    asked: float
    done: list[int]
    ended: bool = False
    hooks: Place = NOWHERE


@dataclass
class EpochOrders:
    """What a sampler has drawn in the epochs that were watched.

    Args:
        batches: by epoch, of each batch its positions in the dataset, as text.
        sampler: that draws them, and not in the order of the dataset.
        draws: whether it keeps a seed, a generator or an epoch, by which it could draw another order each time.
        place: of the loader.
    """

    batches: list[list[str]]
    sampler: str
    draws: bool
    place: Place = NOWHERE


@dataclass
class ChangedDataset:
    """Plain attributes of the training set that change between two epochs, and not by loading.

    Args:
        changes: "strength: 0.0 -> 0.1".
        workers: of its loader.
        persistent: whether these live through all epochs, each with its own copy.
        place: of the loader, and of the hooks that run in between.
    """

    changes: list[str]
    workers: int
    persistent: bool
    place: Place = NOWHERE


class BetweenEpochs:
    """Is told of every training batch, when its step begins and when it is over."""

    def __init__(self) -> None:
        self.lengths = EpochLength(0, [])
        self.changed: list[ChangedDataset] = []
        self.known: dict[str, Any] = {}  # when the last step was over
        self.moving: set[str] = set()  # what changes while batches are loaded
        self.drawn, self.loader = DrawnIndices(), None
        self.orders: EpochOrders | None = None

    def drawn_orders(self) -> list[EpochOrders]:
        """Return what was drawn in each epoch, if it is not the order of the dataset."""
        if self.orders is None:
            return []
        passes = self.drawn.by_pass(self.loader)[-len(self.lengths.done) :]
        length = min(map(len, passes), default=0)
        self.orders.batches = [[str(batch) for batch in each[:length]] for each in passes]
        return [self.orders]

    def begin_epoch(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self.lengths.asked = trainer.num_training_batches
        self.lengths.hooks = hooks_of(trainer, pl_module, ENDING)
        self.lengths.done.append(0)
        found = splits("train", trainer.train_dataloader)
        order = found[0].order() if len(found) == 1 and self.orders is None else None
        if order is not None and order != sorted(order):
            self.loader = found[0].loader
            self.orders = EpochOrders([], found[0].sampler, draws(self.loader), found[0].place)

    def begin_step(self, trainer: Trainer, pl_module: LightningModule, batch_idx: int) -> None:
        now = values_of(trainer)
        different = [name for name, value in now.items() if name in self.known and value != self.known[name]]
        if batch_idx:
            self.moving.update(different)
        else:
            own = moved_by_loading(trainer)
            by_hooks = [name for name in different if name not in self.moving and name.rpartition(".")[2] not in own]
            changes = [f"{name}: {self.known[name]} -> {now[name]}" for name in by_hooks]
            for loader in loaders(trainer) if changes else ():
                workers, persistent = vars(loader).get("asked", (loader.num_workers, loader.persistent_workers))
                place = hooks_of(trainer, pl_module, BETWEEN).beside(loader="train_dataloader")
                self.changed.append(ChangedDataset(changes, workers, persistent, place))
        self.known = now

    def end_step(self, trainer: Trainer) -> None:
        self.lengths.done[-1] += 1
        self.lengths.ended |= trainer.should_stop
        now = values_of(trainer)
        self.moving.update(name for name, value in now.items() if self.known.get(name, value) != value)
        self.known = now


def draws(loader: DataLoader) -> bool:
    """Whether a loader's samplers, or those that they draw from, have anything to draw with."""
    holders = [loader.sampler, loader.batch_sampler]
    inner = [value for holder in holders for value in getattr(holder, "__dict__", {}).values()]
    holders += [value for value in inner if isinstance(value, Sampler)]
    return any(DRAWS.search(name) for holder in holders for name in getattr(holder, "__dict__", {}))


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
        yield from of_part(value, f"{path}.{name}", depth)


def of_part(value: Any, path: str, depth: int) -> Iterator[tuple[str, Any]]:
    if isinstance(value, (bool, int, float, str)):
        yield path, value
    elif isinstance(value, Tensor) and value.numel() <= FEW and not value.is_shared():
        yield path, value.tolist()
    elif isinstance(value, (list, tuple)) and len(value) <= FEW:
        for index, each in enumerate(value):
            yield from of_part(each, f"{path}[{index}]", depth)
    elif depth > 1 and not isinstance(value, (type, *OF_ARRAYS)):
        yield from plain(value, path, depth - 1)
