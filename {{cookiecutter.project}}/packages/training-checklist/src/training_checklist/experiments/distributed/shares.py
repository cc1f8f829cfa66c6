"""Which share of the data each rank gets: what its samplers draw, and what its batches hold."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import wraps
from hashlib import blake2b
from typing import Any

import numpy
import torch
from torch import Tensor
from torch.utils._pytree import tree_leaves
from torch.utils.data import DataLoader, DistributedSampler, RandomSampler, SequentialSampler
from torch.utils.data.dataloader import _BaseDataLoaderIter

from training_checklist.engines.replay import seed_all
from training_checklist.lightning import CombinedLoader, isolate_rng

PROBED = 3  # samples of a dataset that tell whether the ranks have the same one


@dataclass
class Loader:
    """One training DataLoader of one rank.

    Args:
        batches: how many it has in an epoch, or None.
        samples: length of its dataset, or None.
        content: of some samples at fixed positions, or None where they could not be read.
        whole: whether its sampler goes through the whole dataset once an epoch.
        splits: whether its sampler is one that gives each rank samples of its own.
        drawn: the positions in the dataset that each batch was made of.
    """

    batches: int | None
    samples: int | None
    content: str | None
    whole: bool
    splits: bool
    dataset: str
    sampler: str
    drawn: list[Any] = field(default_factory=list)


class DrawnIndices:
    """While it is entered, what the sampler of every DataLoader of this process draws is kept."""

    def __init__(self) -> None:
        self.drawn: dict[int, list[Any]] = {}
        self._next: Any = None

    def __enter__(self) -> "DrawnIndices":
        self._next = draw = _BaseDataLoaderIter._next_index  # in this process also where workers load

        @wraps(draw)
        def kept(iterator: Any) -> Any:
            index = draw(iterator)
            self.drawn.setdefault(id(iterator._index_sampler), []).append(index)
            return index

        _BaseDataLoaderIter._next_index = kept
        return self

    def __exit__(self, *error: object) -> None:
        if self._next is not None:
            _BaseDataLoaderIter._next_index, self._next = self._next, None

    def of(self, loader: DataLoader, count: int) -> list[Any]:
        return self.drawn.get(id(loader._index_sampler), [])[:count]


def loaders_of(collection: Any) -> list[DataLoader]:
    """Return the DataLoaders in whatever collection of loaders a Trainer has."""
    loaders = CombinedLoader(collection).flattened if collection is not None else []
    return [loader for loader in loaders if isinstance(loader, DataLoader)]


def describe(loader: DataLoader) -> Loader:
    sampler = getattr(loader.batch_sampler, "sampler", None) or loader.sampler
    samples = length(loader.dataset)
    whole = isinstance(sampler, SequentialSampler) or (isinstance(sampler, RandomSampler) and not sampler.replacement)
    return Loader(
        batches=length(loader),
        samples=samples,
        content=content_of(loader.dataset, samples),
        whole=whole and samples is not None and length(sampler) == samples,
        splits=isinstance(sampler, DistributedSampler),
        dataset=type(loader.dataset).__name__,
        sampler=type(sampler).__name__,
    )


def length(sized: Any) -> int | None:
    try:
        return len(sized)
    except (TypeError, NotImplementedError):
        return None


def content_of(dataset: Any, samples: int | None) -> str | None:
    """Return a digest of some samples that is the same on all ranks which have the same dataset."""
    if not samples or not hasattr(dataset, "__getitem__"):
        return None
    positions = sorted({samples * part // PROBED for part in range(PROBED)})
    with isolate_rng(include_cuda=False):
        seed_all()
        try:
            return digest([dataset[position] for position in positions])
        except Exception:  # a dataset may want other keys than numbers
            return None


def digest(batch: Any) -> str:
    """Return a digest of all tensors, arrays, numbers and texts in a batch."""
    total = blake2b(digest_size=8)
    for leaf in tree_leaves(batch):
        if isinstance(leaf, Tensor) and leaf.layout == torch.strided:
            leaf = leaf.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy()
        if isinstance(leaf, numpy.ndarray):
            total.update(leaf.tobytes())
        elif isinstance(leaf, (str, bytes, int, float, numpy.generic)):
            total.update(repr(leaf).encode())
    return total.hexdigest()


def same_batches(one: list[str], other: list[str]) -> int:
    """Return how many batches were the same on two ranks at the same position; 0 where a rank's own are alike too."""
    if len(set(one)) <= len(one) // 2:
        return 0
    return sum(mine == theirs for mine, theirs in zip(one, other, strict=False))


def flat(drawn: Iterable[Any]) -> list[Any]:
    return [index for batch in drawn for index in (batch if isinstance(batch, list) else [batch])]
