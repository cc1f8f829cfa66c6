"""The loaders of a run, and any samples of them as the network gets them."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain, islice
from numbers import Integral
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
import torch
from torch.utils.data import BatchSampler, DataLoader, Dataset, IterableDataset, Subset

from training_checklist.engines.batches import batch_size, is_dense, tensors
from training_checklist.engines.drawn_indices import length
from training_checklist.engines.held import size_of
from training_checklist.engines.own_code import pass_on
from training_checklist.engines.places import of_function
from training_checklist.finding import Place
from training_checklist.lightning import RunningStage, Trainer, isolate_rng, part

STAGES = {"train": RunningStage.TRAINING, "val": RunningStage.VALIDATING, "test": RunningStage.TESTING}
WITHOUT_GRAPH = 8  # batches of the loader's size that take no more memory than one that backward goes through
CHUNK = 64  # samples fetched at once
SMALL = 2**22  # bytes of samples: a ResNet-50 makes 170 times as many of them, which is 0.7 GiB
LISTED = 100_000  # indices of a sampler that are looked at: some 10 ms

# By loader: what its sampler draws of its dataset, None where that is all; the same object whenever it is asked for.
PARTS: WeakKeyDictionary[DataLoader, Subset | None] = WeakKeyDictionary()

# What a sampler draws: an index, or a tuple of it and the epoch or the like, which are in order as their numbers are.
Key = int | tuple[int, ...]


@dataclass(eq=False)
class Split:
    """A loader and what it loads.

    Args:
        name: "train_dataloader", or "val_dataloader[1]" where there are several.
        stage: "train", "val" or "test".
        index: Lightning's dataloader_idx.
        of_several: whether its stage has other loaders beside it.
        path: keys and indices by which it is found among them, as its batch is in one that they make together.
    """

    name: str
    stage: str
    loader: DataLoader
    index: int
    of_several: bool = False
    path: tuple[Any, ...] = ()

    @property
    def prefix(self) -> str:
        """How the places of its tensors begin in a batch that all loaders of its stage make together."""
        return "batch" + "".join(f"[{key!r}]" for key in self.path)

    @property
    def dataset(self) -> Dataset:
        """What the loader loads; where its sampler draws a part of the dataset that it is given, that part."""
        if self.loader not in PARTS:
            indices = drawn_part(self.loader)
            PARTS[self.loader] = None if indices is None else Subset(self.loader.dataset, indices)
        part = PARTS[self.loader]
        return self.loader.dataset if part is None else part

    @property
    def place(self) -> Place:
        return Place(loader=self.name, note=type(self.loader.dataset).__name__)

    def place_of(self, function: str) -> Place:
        """Return the place with the line of the dataset's `__getitem__`, or of the loader's `collate_fn`."""
        dataset = self.dataset
        while isinstance(dataset, Subset):  # torch's, of random_split: what it is of has the line
            dataset = dataset.dataset
        owner = self.loader if function == "collate_fn" else type(dataset)
        line = of_function(getattr(owner, function)) if hasattr(owner, function) else Place()
        return self.place.beside(file=line.file, line=line.line, function=line.function)

    @property
    def samples(self) -> int | None:
        """How many there are; None of a stream that does not say."""
        return length(self.dataset)

    @property
    def indexable(self) -> bool:
        """Whether samples can be had one by one."""
        return (
            not isinstance(self.dataset, IterableDataset)
            and self.loader.batch_sampler is not None
            and hasattr(self.dataset, "__getitem__")
            and bool(self.samples)
        )

    @property
    def sampler(self) -> str:
        """Name of the class that decides about the order."""
        batches = self.loader.batch_sampler
        return type(self.loader.sampler if type(batches) in (BatchSampler, type(None)) else batches).__name__

    def order(self) -> list[Key] | None:
        """Return the first keys in the order in which they are loaded, or None where there are none that have one."""
        if not self.indexable:
            return None
        indices = drawn(self.loader)
        if len(indices) < 2 or not all(map(is_key, indices)) or len({*map(type, indices)}) > 1:
            return None
        # Tuples that ascend may be places in an order that the dataset makes; others are shuffled in any case.
        return None if isinstance(indices[0], tuple) and indices == sorted(indices) else indices

    def chosen(self, number: int) -> list[int]:
        """Return at most `number` indices from all over the dataset, ascending, the same each time."""
        order = torch.randperm(self.samples, generator=torch.Generator().manual_seed(0))
        return sorted(order[:number].tolist())

    def holdable(self, number: int, trainer: Trainer, times: int = 1) -> list[int]:
        """Return such indices, and of large samples, as the network gets them, no more than there is surely memory for.

        Args:
            times: how many batches of the loader: a step that keeps what it computes, as training does, holds one.
        """
        try:
            [(_, sample)] = self.fetch(self.chosen(1), trainer, time.monotonic())
        except Exception:  # of a collate function, say, that needs several
            sample = self.items(self.chosen(1))
        fitting = SMALL // max(size_of(sample), 1)
        return self.chosen(min(number, max(times * (self.loader.batch_size or 1), fitting)))

    def fetch(
        self, indices: list[int], trainer: Trainer, until: float, size: int = CHUNK
    ) -> Iterator[tuple[list[int], Any]]:
        """Yield (indices, batch) as the network would get them, until the clock shows `until`."""
        with as_in(self.stage, trainer):
            for start in range(0, len(indices), size):
                if start and time.monotonic() > until:
                    return
                chunk = indices[start : start + size]
                yield chunk, self.batch_of(self.items(chunk), trainer)

    def batch_of(self, items: Any, trainer: Trainer) -> Any:
        """Return samples as the network would get them together; within `as_in`, where hooks may ask for the stage."""
        return pass_on(transferred, pass_on(self.loader.collate_fn, items), trainer, self.index)

    def spread(self, number: int, trainer: Trainer) -> Any:
        """Return a batch of samples from all over the dataset: batches of neighbours in length have no padding."""
        indices = self.holdable(number, trainer, WITHOUT_GRAPH)
        return next(batch for _, batch in self.fetch(indices, trainer, time.monotonic(), len(indices)))

    def items(self, indices: list[int]) -> Any:
        """Return samples as the loader gets them before it collates them."""
        return load_items(self.dataset, indices)


def drawn(loader: DataLoader) -> list[Any]:
    """Return the first keys that the samplers of a loader draw."""
    batches = loader.batch_sampler
    with isolate_rng():
        source = batches.sampler if type(batches) is BatchSampler else chain.from_iterable(batches)
        return pass_on(list, islice(source, LISTED))


def drawn_part(loader: DataLoader) -> list[int] | None:
    """Return the indices, ascending, that a sampler keeps and draws where they part a dataset among splits, else None.

    So torch's SubsetRandomSampler does. What keeps no indices, as one that draws by weights, may draw any.
    """
    if type(loader.batch_sampler) is not BatchSampler or isinstance(loader.dataset, IterableDataset):
        return None
    samples = length(loader.dataset)
    if samples is None:
        return None
    sampler = loader.batch_sampler.sampler
    for kept in (sampler, *getattr(sampler, "__dict__", {}).values()):
        if isinstance(kept, (torch.Tensor, np.ndarray)) and kept.ndim == 1:
            kept = kept.tolist()
        whole = isinstance(kept, (list, tuple, range)) and all(isinstance(each, Integral) for each in kept)
        if not whole or not kept:
            continue
        indices = {*kept}
        is_part = len(indices) == len(kept) < samples
        if is_part and (len(kept) > LISTED or {*drawn(loader)} == indices):
            return sorted(map(int, indices))
    return None


def load_items(dataset: Any, indices: list[int]) -> Any:
    """Return samples of a dataset as a loader asks for them."""
    if hasattr(dataset, "__getitems__"):
        return pass_on(dataset.__getitems__, indices)
    return [pass_on(dataset.__getitem__, index) for index in indices]


def is_key(drawn: Any) -> bool:
    return isinstance(drawn, int) or (isinstance(drawn, tuple) and all(isinstance(number, int) for number in drawn))


@contextmanager
def as_in(stage: str, trainer: Trainer) -> Iterator[None]:
    """Inside, hooks of the project see the Trainer and the model in the given stage."""
    modes = [(module, module.training) for module in trainer.lightning_module.modules()]
    before = trainer.state.stage
    trainer.state.stage = STAGES[stage]
    trainer.lightning_module.train(stage == "train")
    try:
        yield
    finally:
        trainer.state.stage = before
        for module, mode in modes:
            module.training = mode


def transferred(batch: Any, trainer: Trainer, dataloader_idx: int) -> Any:
    """Return a batch after Lightning's transfer hooks, which its loops call in the same way (2.6)."""
    batch = trainer.precision_plugin.convert_input(batch)
    batch = trainer.lightning_module._on_before_batch_transfer(batch, dataloader_idx=dataloader_idx)
    return part("trainer.call")._call_strategy_hook(trainer, "batch_to_device", batch, dataloader_idx=dataloader_idx)


def splits(stage: str, source: Any) -> list[Split]:
    """Return the loaders in whatever `source` is: one, or nested lists and mappings of them."""
    found = list(loaders(source))
    several = len(found) > 1
    name = f"{stage}_dataloader"
    return [
        Split(f"{name}[{i}]" if several else name, stage, loader, i, several, path)
        for i, (path, loader) in enumerate(found)
    ]


def loaders(source: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[tuple[Any, ...], DataLoader]]:
    if isinstance(source, DataLoader):
        yield path, source
    elif isinstance(source, (list, tuple, dict)):
        for key, value in source.items() if isinstance(source, dict) else enumerate(source):
            yield from loaders(value, (*path, key))


def samples_of(batch: Any, source: Any) -> int | None:
    """Return how many samples a batch of some loaders has: its first dimension, or its second where time comes first.

    Padded sequences have their samples there, unless they are stacked by batch_first=True. Where a loader stacks
    nothing, a label without a dimension belongs to one sample, such as a bag of instances.
    """
    size, asked = batch_size(batch), {loader.batch_size for _, loader in loaders(source)}
    if not all(map(is_dense, tensors(batch))):
        return size
    if asked == {None} and any(tensor.ndim == 0 for tensor in tensors(batch)):
        return None
    second = {tensor.shape[1] if tensor.ndim > 1 else None for tensor in tensors(batch) if tensor.ndim}
    return second.pop() if size not in asked and len(second) == 1 and second <= asked - {None} else size
