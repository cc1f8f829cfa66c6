"""Random generators that a dataset begins anew for each sample: all with one number, or each always with its own."""

import random
import time
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from itertools import pairwise
from numbers import Integral
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils._pytree import tree_leaves

from training_checklist.engines.generator_makers import made_by
from training_checklist.engines.places import of_frame, own_frame
from training_checklist.engines.replay import seed_all
from training_checklist.engines.splits import Split, load_items
from training_checklist.engines.tracer import Call, Listener, Tracer
from training_checklist.evidence.loading import FrozenAugmentation, Reseeded
from training_checklist.finding import Place
from training_checklist.lightning import Trainer, isolate_rng

SAMPLES = 8
SHIFT = 1_000_003  # of a seed, to one that no other sample has
SEEDS = {torch: ["manual_seed"], np.random: ["seed", "default_rng", "RandomState"], random: ["seed", "Random"]}


class Seeds(Listener):
    """While it is entered, keeps the numbers that lines of the project seed with, and what their generators draw.

    Args:
        shift: added to each of these numbers.
    """

    def __init__(self, shift: int = 0) -> None:
        self.shift = shift
        self.found: dict[Place, Any] = {}
        self.shifted: set[int] = set()  # generators of torch, by id
        self.patches = ExitStack()

    def __enter__(self) -> "Seeds":
        self.patches.enter_context(made_by(SEEDS, self._see))
        return self

    def __exit__(self, *error: object) -> None:
        self.patches.close()

    def _see(self, given: tuple[Any, ...], options: dict[str, Any]) -> tuple[Any, ...]:
        if not given or not isinstance(given[0], Integral):
            return given
        frame = own_frame()
        if frame is not None:
            self.found[of_frame(frame)] = int(given[0])
        return (int(given[0]) + self.shift, *given[1:]) if self.shift else given

    def before(self, call: Call) -> None:
        generator = call.kwargs.get("generator")
        if self.shift and isinstance(generator, torch.Generator) and id(generator) not in self.shifted:
            self.shifted.add(id(generator))
            generator.manual_seed(generator.initial_seed() + self.shift)

    def after(self, call: Call) -> None:
        """Of a generator of torch, whose class takes no patch, the seed is known when it draws."""
        generator = call.kwargs.get("generator")
        if isinstance(generator, torch.Generator):
            place = call.place
            if place.line:
                self.found[place] = generator.initial_seed()


def reseeded(split: Split, trainer: Trainer) -> Reseeded | None:
    """Load some samples, each with another seed, and see which lines seed anew with the very same number."""
    if not split.indexable or split.samples < SAMPLES:
        return None
    seen = [seeds_of(split, trainer, index, seed=index)[0] for index in split.chosen(SAMPLES)]
    place = next((line for line, seed in seen[0].items() if all(each.get(line) == seed for each in seen)), None)
    return Reseeded(SAMPLES, None if place is None else seen[0][place], split.place if place is None else place)


def frozen(split: Split, trainer: Trainer, until: float) -> FrozenAugmentation | None:
    """See whether samples that are kept get the same random numbers each time that they are loaded.

    None also where there is no time to load them three times.

    Samples that are made of random numbers alone, such as those of a demonstration, are others with other numbers.
    """
    if not split.indexable or split.samples < SAMPLES or knows_epoch(split.dataset):
        return None
    chosen, began = split.chosen(SAMPLES), time.monotonic()
    first = [seeds_of(split, trainer, index, seed=1) for index in chosen]
    now = time.monotonic()
    if now + 2 * (now - began) > until:
        return None
    again = [seeds_of(split, trainer, index, seed=2) for index in chosen]
    lines = [
        line
        for line, seed in first[0][0].items()
        if len({one[0].get(line) for one in first}) > 1
        and all(line in one[0] and one[0][line] == other[0].get(line) for one, other in zip(first, again, strict=True))
    ]
    if not lines:
        return FrozenAugmentation(SAMPLES, None, None, split.place)
    shifted = [seeds_of(split, trainer, index, seed=1, shift=SHIFT)[1] for index in chosen]
    values = [numbers for _, numbers in first]
    if any(one.shape != other.shape for one, other in zip(values, shifted, strict=True)):
        return FrozenAugmentation(SAMPLES, None, None, split.place)
    least = min(map(len, values))  # of texts of several lengths
    values, shifted = ([each[:least] for each in those] for those in (values, shifted))
    own = torch.stack([(one - other).norm() for one, other in zip(values, shifted, strict=True)]).mean()
    others = torch.stack([(one - other).norm() for one, other in pairwise(values)]).mean()
    steady = all(torch.equal(one[1], other[1]) for one, other in zip(first, again, strict=True))
    distance = float(own / others) if others else None
    return FrozenAugmentation(SAMPLES, distance, steady, lines[0], len(values[0]))


def knows_epoch(dataset: Any) -> bool:
    """Whether a dataset, or one that it wraps, keeps the number of the epoch, with which seeds may change."""
    inner = getattr(dataset, "dataset", None)
    return any("epoch" in name for name in getattr(dataset, "__dict__", {})) or (
        inner is not None and knows_epoch(inner)
    )


def seeds_of(split: Split, trainer: Trainer, index: int, seed: int, shift: int = 0) -> tuple[dict[Place, Any], Tensor]:
    """Return what lines seed with while a batch of one sample is loaded, and the sample's numbers."""
    seeds, numbers = Seeds(shift), torch.zeros(0)
    with isolate_rng():
        seed_all(seed)
        with suppress(Exception), seeds, Tracer(trainer.lightning_module, seeds):
            items = load_items(split.dataset, [index])
            found = [torch.as_tensor(each) for each in arrays(items)]
            numbers = torch.cat([each.double().flatten() for each in found]) if found else numbers
            split.loader.collate_fn(items)
    return seeds.found, numbers


def arrays(sample: Any) -> Iterator[Any]:
    yield from (leaf for leaf in tree_leaves(sample) if isinstance(leaf, (Tensor, np.ndarray)))
