"""Whether a sample is the same whatever was loaded before it, tried on copies of a dataset that is still unread."""

import time
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from torch import Tensor

from training_checklist.engines.fingerprints import digest_of
from training_checklist.engines.held import all_kept, bytes_of, kept
from training_checklist.engines.random_state import GENERATORS, move_on, state_of, with_state
from training_checklist.engines.replay import seed_all
from training_checklist.engines.splits import Split, load_items
from training_checklist.finding import Place
from training_checklist.lab.data import Data, by_index
from training_checklist.lab.shared import once
from training_checklist.lab.stored import Loaded, Unseen, pieces, told_apart
from training_checklist.lightning import Trainer, isolate_rng
from training_checklist.probe import CannotJudge

SAMPLES = 64  # of 60 series and 90 days, 23 pairs share a day: enough to see a cache whose key lacks one of the two
FURTHER = 10_000  # draws of a generator of the dataset itself, more than a sample takes: as of another seed
SEEDS = 10  # of a sample, which no other one has
MANY_KEPT = 500  # arrays: to go through more of them after each load takes longer than most loads
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


@dataclass
class History:
    """Samples of the training set, loaded in two orders from copies of it, with the same random numbers each time.

    Args:
        unsteady: how many were others when they were loaded a second time at once.
        moved: how many were others in the other order.
        changed: what the dataset keeps otherwise since: "Windows.sales".
        marked: how many were others, with the same random numbers, after they had been loaded with other ones.
        frozen: how many of these were what those other ones had made.
        redrawn: whether no part of samples, such as their label, is the same with other random numbers.
    """

    samples: int
    unsteady: int
    moved: int
    changed: list[str]
    marked: int
    frozen: int
    redrawn: bool
    place: Place


@once
def history(data: Data) -> History:
    """Load samples in two orders, each from a copy of the dataset that is still unread.

    Raises:
        CannotJudge: it cannot be copied, is too large, or has random numbers that cannot be held still.
    """
    split = by_index(data.train)
    name, until = type(split.dataset).__name__, time.monotonic() + data.seconds / 2
    if sum(bytes_of(each) for _, each in kept(split.dataset, name, (Tensor, np.ndarray))) > LARGEST:
        raise CannotJudge(f"the dataset keeps more than {LARGEST} bytes: too much for a copy")
    chosen = split.chosen(SAMPLES)
    found, generators = [], [(each, state_of(each)) for each in all_kept(split.dataset, GENERATORS)]
    states = [state for _, state in generators]
    try:
        for order, seeds in ((chosen, (0, 0, 1)), (chosen[::-1], (0,)), (chosen, (1,))):
            found.append(load_in(order, seeds, split, data.trainer, until, states))
    except Unseen as kind:
        raise CannotJudge(f"a sample holds something that cannot be compared: {kind}") from None
    finally:
        for generator, state in generators:  # a copy of a ListConfig shares the objects in it
            with_state(generator, state)
    one, backwards, alone = found
    unsteady = [index for index in chosen if one.results[index][0] != one.results[index][1]]
    moved = [index for index in chosen if one.results[index][0] != backwards.results[index][0]]
    marked = [index for index in chosen if one.results[index][2] != alone.results[index][0]]
    frozen = [index for index in marked if one.results[index][2] == one.results[index][0]]
    if one.hidden or (unsteady and not one.changed):
        raise CannotJudge("samples are random in a way that cannot be held still")
    drawn = [zip(one.results[index][0], alone.results[index][0], strict=False) for index in chosen]
    parts = zip(*([was == now for was, now in each] for each in drawn), strict=False)
    redrawn = not any(all(each) for each in parts)
    place = split.place_of("__getitem__").beside(sample=next(iter(unsteady or moved or marked), None))
    return History(len(chosen), len(unsteady), len(moved), one.changed, len(marked), len(frozen), redrawn, place)


def load_in(
    order: list[int], seeds: tuple[int, ...], split: Split, trainer: Trainer, until: float, states: list[Any]
) -> Loads:
    """Load samples from a copy of the dataset, until the clock shows `until`, each with each of the seeds.

    Args:
        states: of the generators that the dataset keeps, to begin with.
    """
    parts = (trainer, trainer.lightning_module, trainer.datamodule)
    try:
        dataset = deepcopy(split.dataset, {id(part): part for part in parts if part is not None})
    except Exception as error:  # an open file, a lock, a connection
        raise CannotJudge(f"the dataset cannot be copied: {type(error).__name__}") from None
    name, loads = type(dataset).__name__, Loads()
    own = [*all_kept(dataset, GENERATORS)]
    if len(own) != len(states):
        raise CannotJudge("a copy of the dataset has other random generators than the dataset")
    generators = [*zip(own, states, strict=True)]
    before = {path: digest_of(each) for path, each in kept(dataset, name, (Tensor, np.ndarray))}
    with isolate_rng():
        for index in order:
            for seed in seeds:
                if time.monotonic() > until:
                    raise CannotJudge("samples are too slow to be loaded several times")
                for generator, state in generators:
                    with_state(generator, state)
                    move_on(generator, FURTHER * seed + index % FURTHER)
                seed_all(seed + SEEDS * index)  # of one seed for all, rare changes may come to none of them
                loaded = told_apart(Loaded(list(pieces(load_items(dataset, [index])))))
                if len(before) < MANY_KEPT:
                    all_now = kept(dataset, name, (Tensor, np.ndarray))
                    before |= {path: digest_of(each) for path, each in all_now if path not in before}  # as in a cache
                loads.results.setdefault(index, []).append(loaded)
    after = {path: digest_of(each) for path, each in kept(dataset, name, (Tensor, np.ndarray))}
    loads.changed = [path for path, known in before.items() if after.get(path, known) != known]
    loads.hidden = sum(1 for _ in all_kept(dataset, GENERATORS)) > len(generators)
    return loads
