"""What two workers of a DataLoader read of an iterable dataset, of which each has a copy."""

import time
import traceback
from itertools import islice
from typing import Any

import torch
from torch import Tensor
from torch.utils._pytree import tree_leaves
from torch.utils.data import DataLoader, IterableDataset, get_worker_info

from training_checklist.engines.batches import batch_size
from training_checklist.engines.fingerprints import digest_of
from training_checklist.engines.places import of_function
from training_checklist.evidence.repetition import WorkerShares
from training_checklist.lightning import isolate_rng

BATCHES, SECONDS = 256, 5  # at most, in each of two readings
TIMEOUT = 60  # seconds to wait for a batch


def worker_shares(loader: DataLoader, name: str) -> WorkerShares:
    """Return what two workers of a loader read. It reads data of its own accord, and raises nothing."""
    facts: dict[str, Any] = {"workers": loader.num_workers}
    if not isinstance(loader.dataset, IterableDataset):
        return WorkerShares(**facts, obstacle="the training data are not iterable: a sampler gives each worker its own")
    if loader.num_workers < 2:
        return WorkerShares(**facts, obstacle="the training data are loaded by one process only")
    facts["place"] = of_function(type(loader.dataset).__iter__).beside(loader=name)
    try:
        return WorkerShares(*(read(loader, seed) for seed in (1, 2)), **facts)
    except Exception as error:
        # torch (2.15) keeps a worker's exception in a cycle of references, and the iterator with it; when the garbage
        # collector comes to that, it waits 5 s for each worker.
        traceback.clear_frames(error.__traceback__)
        told = f"{type(error).__name__}: {error}".splitlines()[-1]  # of a worker's exception the end of its traceback
        return WorkerShares(**facts, obstacle=f"samples cannot be read again: {told}")


def read(loader: DataLoader, seed: int) -> tuple[list[str], list[str]]:
    """Return what each of two workers reads when an epoch begins, as fingerprints."""
    streams: tuple[list[str], list[str]] = ([], [])
    with isolate_rng():
        both = DataLoader(
            loader.dataset,
            batch_size=loader.batch_size,
            num_workers=2,
            collate_fn=Fingerprints(loader),
            worker_init_fn=loader.worker_init_fn,
            multiprocessing_context=loader.multiprocessing_context,
            timeout=TIMEOUT,
            generator=torch.Generator().manual_seed(seed),
        )
        began = None
        for worker, fingerprints in islice(both, BATCHES):
            streams[worker].extend(fingerprints)
            began = time.monotonic() if began is None else began  # not before: it may take long to start a worker
            if time.monotonic() - began > SECONDS:
                break
    return streams


class Fingerprints:
    """Stands for the collate function of a loader, in the workers: which of them this is, and what it has read."""

    def __init__(self, loader: DataLoader) -> None:
        # Before they are collated samples are as the dataset has them, without padding.
        self.collate = loader.collate_fn if loader.batch_size is None else None

    def __call__(self, samples: Any) -> tuple[int, list[str]]:
        rows = samples if self.collate is None else rows_of(self.collate(samples))
        return get_worker_info().id, [digest_of(row) for row in rows]


def rows_of(batch: Any) -> list[Any]:
    """Return the samples of a batch that the dataset has made; the batch itself where it cannot be cut up."""
    parts, size = tree_leaves(batch), batch_size(batch)
    if size is None or not all(isinstance(part, Tensor) for part in parts):
        return [batch]
    return [[part[index] for part in parts if part.ndim] for index in range(size)]
