import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import islice
from typing import Any

import torch
from torch import Tensor
from torch.utils._pytree import tree_leaves
from torch.utils.data import DataLoader, IterableDataset, get_worker_info

from training_checklist.instruments import (
    Example,
    SeededRuns,
    Small,
    batch_size,
    digest_of,
    isolate_rng,
    of_function,
    of_the_project,
)
from training_checklist.probe import CannotJudge, Fix, Hit, Hits, Limits, Probe, Threshold

BATCHES, SECONDS = 256, 5  # at most, in each of two readings
TIMEOUT = 60  # seconds to wait for a batch
Streams = tuple[list[str], list[str]]


def detect(seeded: SeededRuns, limits: Limits) -> Hits:
    for name, loader in seeded.loaders:
        if not isinstance(loader.dataset, IterableDataset):
            raise CannotJudge("the training data are not iterable: a sampler gives each worker its own")
        if loader.num_workers < 2:
            raise CannotJudge("the training data are loaded by one process only")
        with of_the_project("a sample, read again,"), freed():
            readings = [read(loader, seed) for seed in (1, 2)]
        common = common_part(readings, limits)
        if common >= limits.common_samples:
            yield Hit(
                f"two workers read the same samples: {common:.0%} of the {len(readings[0][1])} that worker 1 has read, "
                f"worker 0 has read too, and the loader has {loader.num_workers} workers",
                of_function(type(loader.dataset).__iter__).beside(loader=name),
            )


@contextmanager
def freed() -> Iterator[None]:
    """Let go of a worker's exception: torch (2.15) keeps it in a cycle of references, and the iterator with it.

    When the garbage collector comes to that, it waits 5 s for each worker.
    """
    try:
        yield
    except Exception as error:
        traceback.clear_frames(error.__traceback__)
        raise


def common_part(readings: list[Streams], limits: Limits) -> float:
    """Return which part of what worker 1 reads worker 0 reads, too.

    Raises:
        CannotJudge: that says nothing.
    """
    fewest = min(len(stream) for streams in readings for stream in streams)
    if fewest < limits.least_samples:
        raise CannotJudge(f"a worker has read {fewest} samples; fewer may be the same by chance")
    common = min(part_of(others, own) for own, others in readings)
    if common < limits.common_samples:
        again = part_of(readings[1][0], readings[0][0])
        if again < limits.common_samples:
            raise CannotJudge(
                f"a worker itself reads only {again:.0%} of its samples again in another epoch: they are drawn from "
                "more than was read here, or come with random augmentation"
            )
        return common
    repeated = max(1 - len(set(stream)) / len(stream) for streams in readings for stream in streams)
    if repeated >= limits.max_repeated * common:
        raise CannotJudge(f"samples repeat within one worker, too: {repeated:.0%} of what it reads")
    return common


def part_of(samples: list[str], known: list[str]) -> float:
    """Return which part of some samples is among others."""
    others = set(known)
    return sum(sample in others for sample in samples) / len(samples)


def read(loader: DataLoader, seed: int) -> Streams:
    """Return what each of two workers reads when an epoch begins, as fingerprints."""
    streams: Streams = ([], [])
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


class Read(IterableDataset):
    """Reads what a function of the worker's id gives."""

    def __init__(self, share: Callable[[int], list[int]]) -> None:
        self.share = share

    def __iter__(self) -> Iterator[tuple[Tensor, Tensor]]:
        info = get_worker_info()
        for index in self.share(0 if info is None else info.id):
            yield torch.full((8,), float(index)), torch.tensor(index % 4)


def shares(share: Callable[[int], list[int]]) -> Example:
    brief = {"max_epochs": 1, "limit_train_batches": 1}
    return Example(Small, lambda: DataLoader(Read(share), 8, num_workers=2), trainer=brief)


def overlapping(common: float) -> Example:
    """Let each worker read 64 samples, of which so great a part is the same."""
    return shares(lambda worker: [*range(round(64 * common)), *range(100 * (1 + worker), 164 * (1 + worker))][:64])


def repeating(part: float) -> Example:
    """Let both read the same 64 samples, of which so great a part comes twice."""
    return shares(lambda worker: [max(index, round(64 * part)) for index in range(64)])


PROBE = Probe(
    item="reproducibility",
    question="Does each DataLoader worker read a different share of an IterableDataset?",
    why="each has a copy of the dataset and goes through all of it: samples come once for every worker, and where the "
    "epoch has an end before that, others never come",
    fix=Fix(
        "in __iter__: info = torch.utils.data.get_worker_info(), and where it is not None itertools.islice(samples, "
        "info.id, None, info.num_workers); a random order must be the same in all workers before it is cut up: "
        "torch.Generator().manual_seed(info.seed - info.id)"
    ),
    detect=detect,
    thresholds={
        "common_samples": Threshold(
            0.25,
            "of what worker 1 reads: workers with shares of their own have none in common, two that shuffle apart and "
            "then take half each have half, and two without shares all; between lie data that repeat themselves",
            factor=2.0,
            faulty=overlapping(0.4),
            healthy=overlapping(0.2),
        ),
        "least_samples": Threshold(
            32,
            "of a worker: workers that draw at random, with replacement, then pass for copies once in 2,000 times at "
            "most (simulated for data of 2 to 600 samples); with 16 samples it is once in 200",
            factor=2.0,
            faulty=shares(lambda worker: [*range(40)]),
            healthy=shares(lambda worker: [*range(24)]),
        ),
        "max_repeated": Threshold(
            0.25,
            "of the common part: of n samples, k that are drawn at random, with replacement, have 1 - exp(-k / n) in "
            "common with k others, and repeat at least half as many themselves; half of that leaves room for chance",
            factor=2.0,
            faulty=repeating(0.2),
            healthy=repeating(0.4),
        ),
    },
    faulty=overlapping(1.0),
    healthy=overlapping(0.0),
)
