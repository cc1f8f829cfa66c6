"""Whether a sample is the same whatever was loaded before it, tried on copies of a dataset that is still unread."""

import time
from contextlib import suppress
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from torch import Tensor

from training_checklist.engines.fingerprints import digest_of
from training_checklist.engines.held import kept
from training_checklist.engines.random_state import GENERATORS, state_of, with_state
from training_checklist.engines.replay import seed_all
from training_checklist.engines.splits import Split, load_items
from training_checklist.evidence.loading import History
from training_checklist.experiments.limit_batches.stored_samples import Loaded, Unseen, pieces, told_apart
from training_checklist.lightning import Trainer, isolate_rng

SAMPLES = 64  # of 60 series and 90 days, 23 pairs share a day: enough to see a cache whose key lacks one of the two
SEEDS = 10  # of a sample, which no other one has
LARGEST = 2**30  # bytes that a dataset keeps, of which a copy is made


@dataclass
class Loads:
    """Some samples in some order, each loaded several times in a row, each time with random numbers of one seed.

    Args:
        results: what the loads of each gave, by its index.
        changed: what the dataset kept before, and keeps otherwise since.
        hidden: whether a random generator has come up that was not there before.
    """

    results: dict[int, list[Any]] = field(default_factory=dict)
    changed: list[str] = field(default_factory=list)
    hidden: bool = False


def history(split: Split, trainer: Trainer, seconds: float) -> History | None:
    """Load samples in two orders, each from a copy of the dataset; None where it cannot be copied or is too large."""
    if not split.indexable:
        return None
    name, until = type(split.dataset).__name__, time.monotonic() + seconds
    if sum(each.nbytes for _, each in kept(split.dataset, name, (Tensor, np.ndarray))) > LARGEST:
        return None
    chosen = split.chosen(SAMPLES)
    found, loads = [], None
    for order, seeds in ((chosen, (0, 0, 1)), (chosen[::-1], (0,)), (chosen, (1,))):
        with suppress(Unseen):
            loads = load_in(order, seeds, split, trainer, until)
        if loads is None:
            return None
        found.append(loads)
    one, backwards, alone = found
    unsteady = [index for index in chosen if one.results[index][0] != one.results[index][1]]
    moved = [index for index in chosen if one.results[index][0] != backwards.results[index][0]]
    marked = [index for index in chosen if one.results[index][2] != alone.results[index][0]]
    frozen = [index for index in marked if one.results[index][2] == one.results[index][0]]
    hidden = one.hidden or (bool(unsteady) and not one.changed)
    index = next(iter(unsteady or moved or marked), None)
    place = split.place_of("__getitem__").beside(sample=index)
    counts = len(chosen), len(unsteady), len(moved)
    return History(*counts, one.changed, hidden, len(marked), len(frozen), place)


def load_in(order: list[int], seeds: tuple[int, ...], split: Split, trainer: Trainer, until: float) -> Loads | None:
    """Load samples from a copy of the dataset, until the clock shows `until`, each with each of the seeds."""
    parts = (trainer, trainer.lightning_module, trainer.datamodule)
    try:
        dataset = deepcopy(split.dataset, {id(part): part for part in parts if part is not None})
    except Exception:  # an open file, a lock, a connection
        return None
    name, loads = type(dataset).__name__, Loads()
    generators = [(generator, state_of(generator)) for _, generator in kept(dataset, name, GENERATORS)]
    before = {path: digest_of(each) for path, each in kept(dataset, name, (Tensor, np.ndarray))}
    with isolate_rng():
        for index in order:
            for seed in seeds:
                if time.monotonic() > until:
                    return None
                for generator, state in generators:
                    with_state(generator, state)
                seed_all(seed + SEEDS * index)  # of one seed for all, rare changes may come to none of them
                loaded = told_apart(Loaded(list(pieces(load_items(dataset, [index])))))
                new = ((path, each) for path, each in kept(dataset, name, (Tensor, np.ndarray)) if path not in before)
                before |= {path: digest_of(each) for path, each in new}  # as in a cache
                loads.results.setdefault(index, []).append(loaded)
    after = {path: digest_of(each) for path, each in kept(dataset, name, (Tensor, np.ndarray))}
    loads.changed = [path for path, known in before.items() if after.get(path, known) != known]
    loads.hidden = sum(1 for _ in kept(dataset, name, GENERATORS)) > len(generators)
    return loads
