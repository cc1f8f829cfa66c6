"""Which share of the data a rank gets: what its samplers draw, and what its batches hold."""

from typing import Any

from torch.utils.data import DataLoader, DistributedSampler, RandomSampler, SequentialSampler

from training_checklist.engines.drawn_indices import content_of, length
from training_checklist.lab.ranks import Loader
from training_checklist.lightning import combined


def loaders_of(collection: Any) -> list[DataLoader]:
    """Return the DataLoaders in whatever collection of loaders a Trainer has."""
    loaders = combined(collection).flattened if collection is not None else []
    return [loader for loader in loaders if isinstance(loader, DataLoader)]


def describe(loader: DataLoader) -> Loader:
    batches = loader.batch_sampler
    # One of the project's own decides alone: what stands in loader.sampler is asked nothing.
    sampler = loader.sampler if batches is None else getattr(batches, "sampler", batches)
    samples = length(loader.dataset)
    whole = isinstance(sampler, SequentialSampler) or (isinstance(sampler, RandomSampler) and not sampler.replacement)
    return Loader(
        batches=length(loader),
        samples=samples,
        content=content_of(loader.dataset),
        whole=whole and samples is not None and length(sampler) == samples,
        splits=isinstance(sampler, DistributedSampler),
        dataset=type(loader.dataset).__name__,
        sampler=type(sampler).__name__,
    )
