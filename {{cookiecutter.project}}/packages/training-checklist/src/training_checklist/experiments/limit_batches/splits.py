"""The samples of a split, as the network gets them."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice, pairwise
from typing import Any

import torch
from torch import Tensor
from torch.utils.data import BatchSampler, DataLoader, Dataset, IterableDataset

from training_checklist.lightning import RunningStage, Trainer, part

STAGES = {"train": RunningStage.TRAINING, "val": RunningStage.VALIDATING, "test": RunningStage.TESTING}
CHUNK = 64  # samples fetched at once
LISTED = 2000  # indices of a sampler that are looked at


@dataclass
class Split:
    """A loader and what it loads.

    Args:
        name: "train_dataloader", or "val_dataloader[1]" where there are several.
        stage: "train", "val" or "test".
        index: Lightning's dataloader_idx.
    """

    name: str
    stage: str
    loader: DataLoader
    index: int

    @property
    def dataset(self) -> Dataset:
        return self.loader.dataset

    @property
    def where(self) -> str:
        return f"{self.name}: {type(self.dataset).__name__}"

    @property
    def indexable(self) -> bool:
        """Whether samples can be had one by one."""
        return not isinstance(self.dataset, IterableDataset) and self.loader.batch_sampler is not None

    def order(self) -> list[int] | None:
        """Return the first indices in the order in which they are loaded, or None where there are none."""
        if not self.indexable:
            return None
        sampler = self.loader.batch_sampler
        if type(sampler) is BatchSampler:
            indices = list(islice(iter(sampler.sampler), LISTED))
        else:
            indices = list(islice((index for batch in sampler for index in batch), LISTED))
        return indices if all(isinstance(index, int) for index in indices) and len(indices) > 1 else None

    def shuffled(self) -> bool | None:
        order = self.order()
        return None if order is None else any(later < sooner for sooner, later in pairwise(order))

    def chosen(self, number: int) -> list[int]:
        """Return at most `number` indices from all over the dataset, ascending, the same each time."""
        order = torch.randperm(len(self.dataset), generator=torch.Generator().manual_seed(0))
        return sorted(order[:number].tolist())

    def fetch(self, indices: list[int], trainer: Trainer, until: float) -> Iterator[tuple[list[int], Any]]:
        """Yield (indices, batch) as the network would get them, until the clock shows `until`."""
        with as_in(self.stage, trainer):
            for start in range(0, len(indices), CHUNK):
                if start and time.monotonic() > until:
                    return
                chunk = indices[start : start + CHUNK]
                yield chunk, transferred(self.loader.collate_fn(self.items(chunk)), trainer, self.index)

    def items(self, indices: list[int]) -> Any:
        """Return samples as the loader gets them before it collates them."""
        if hasattr(self.dataset, "__getitems__"):
            return self.dataset.__getitems__(indices)
        return [self.dataset[index] for index in indices]


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
    return [Split(f"{name}[{i}]" if several else name, stage, loader, i) for i, loader in enumerate(found)]


def loaders(source: Any) -> Iterator[DataLoader]:
    if isinstance(source, DataLoader):
        yield source
    elif isinstance(source, (list, tuple, dict)):
        for value in source.values() if isinstance(source, dict) else source:
            yield from loaders(value)


def leaves(batch: Any, path: str = "batch") -> dict[str, Tensor]:
    """Return every tensor of a batch by its place: "batch[0]", "batch['image']"."""
    if isinstance(batch, Tensor):
        return {path: batch}
    if isinstance(batch, dict):
        pairs = [(repr(key), value) for key, value in batch.items()]
    elif isinstance(batch, (list, tuple)):
        pairs = [(str(index), value) for index, value in enumerate(batch)]
    else:
        return {}
    return {place: leaf for key, value in pairs for place, leaf in leaves(value, f"{path}[{key}]").items()}
