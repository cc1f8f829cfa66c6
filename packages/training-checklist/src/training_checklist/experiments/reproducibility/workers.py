"""What the workers of a DataLoader draw, and the generators that a dataset holds."""

from collections.abc import Iterator
from typing import Any

import torch
from torch.utils.data import DataLoader

from training_checklist.engines.fingerprints import digest_of
from training_checklist.engines.held import kept
from training_checklist.engines.random_state import GENERATORS
from training_checklist.evidence.repetition import WorkerDraws
from training_checklist.lightning import isolate_rng

# Even a flip of one image in two, in 4 samples drawn 32 times, is alike in two workers once in 2 ** 128.
SAMPLES, DRAWS = 4, 32


def worker_draws(loader: DataLoader) -> WorkerDraws:
    """Return what two workers of a loader draw. It reads data of its own accord, and raises nothing."""
    facts = {
        "workers": loader.num_workers,
        "persistent": loader.persistent_workers,
        "generators": list(held_generators(loader.dataset)),
        "worker_init_fn": getattr(loader.worker_init_fn, "__name__", str(loader.worker_init_fn)),
    }
    if loader.num_workers < 2:
        return WorkerDraws(**facts, obstacle="the training data are loaded by one process only")
    if loader.batch_sampler is None or not hasattr(loader.dataset, "__getitem__"):
        return WorkerDraws(**facts, obstacle="the training data are iterable: no sample can be given to both workers")
    try:
        return WorkerDraws(*(streams(loader, seed) for seed in (1, 2)), **facts)
    except Exception as error:
        return WorkerDraws(**facts, obstacle=f"samples cannot be read again: {type(error).__name__}: {error}")


def streams(loader: DataLoader, seed: int) -> tuple[list[str], list[str]]:
    """Return what two workers make of the same samples, again and again, as fingerprints."""
    with isolate_rng():
        samples = next(iter(loader.batch_sampler))[:SAMPLES]
        both = DataLoader(
            loader.dataset,
            batch_sampler=[samples] * (2 * DRAWS),  # in turn
            num_workers=2,
            collate_fn=loader.collate_fn,
            worker_init_fn=loader.worker_init_fn,
            multiprocessing_context=loader.multiprocessing_context,
            generator=torch.Generator().manual_seed(seed),
        )
        drawn = [digest_of(batch) for batch in both]
    return drawn[::2], drawn[1::2]


def held_generators(dataset: Any) -> Iterator[str]:
    """Yield where a dataset keeps random generators: "Digits.rng (Generator)"."""
    for path, generator in kept(dataset, type(dataset).__name__, GENERATORS):
        yield f"{path} ({type(generator).__name__})"
