"""Samples that are loaded once more, and what is done meanwhile: seeds that are set, arrays that are made."""

import random
from collections.abc import Iterator
from contextlib import ExitStack
from numbers import Integral
from types import FrameType
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils._pytree import tree_leaves

from training_checklist.engines.generator_makers import made_by
from training_checklist.engines.places import here_and_outwards, kind, of_frame, own_frame
from training_checklist.engines.replay import seed_all
from training_checklist.engines.splits import Split, load_items
from training_checklist.engines.tracer import Call, Listener, Tracer
from training_checklist.engines.watched_arrays import watching
from training_checklist.finding import Place
from training_checklist.lab.data import TOGETHER, Data, Part, by_index, differing, is_within, load
from training_checklist.lab.shared import of_the_project, once
from training_checklist.lightning import Trainer, isolate_rng
from training_checklist.probe import CannotJudge

SAMPLES = 16  # that are loaded while it is watched what becomes of their numbers
TWICE = 64  # samples that are loaded twice
ENGINES = ("training_checklist.", "numpy.", "torch.")
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
        """Of a generator of torch, whose class takes no patch, the seed is known when it draws for the first time."""
        generator = call.kwargs.get("generator")
        if not isinstance(generator, torch.Generator):
            return
        if call.place.line and is_new(generator):
            self.found[call.place] = generator.initial_seed()
        if self.shift and id(generator) not in self.shifted:
            self.shifted.add(id(generator))
            generator.manual_seed(generator.initial_seed() + self.shift)


def is_new(generator: torch.Generator) -> bool:
    """Whether a generator has drawn nothing since it was seeded."""
    twin = torch.Generator(generator.device).manual_seed(generator.initial_seed())
    return torch.equal(twin.get_state(), generator.get_state())


def seeds_of(split: Split, trainer: Trainer, index: int, seed: int, shift: int = 0) -> tuple[dict[Place, Any], Tensor]:
    """Return what lines seed with while a batch of one sample is loaded, and the sample's numbers."""
    seeds, numbers = Seeds(shift), torch.zeros(0)
    with isolate_rng():
        seed_all(seed)
        with of_the_project("loading a sample"), seeds, Tracer(trainer.lightning_module, seeds):
            items = load_items(split.dataset, [index])
            found = [torch.as_tensor(each) for each in arrays(items)]
            numbers = torch.cat([each.double().flatten() for each in found]) if found else numbers
            split.loader.collate_fn(items)
    return seeds.found, numbers


def arrays(sample: Any) -> Iterator[Any]:
    yield from (leaf for leaf in tree_leaves(sample) if isinstance(leaf, (Tensor, np.ndarray)))


def watch(data: Data, listener: Listener) -> None:
    """Load some training samples; a listener is told of operations on tensors and, in `see_array`, on arrays."""
    split = by_index(data.train)
    tracer, arrays = Tracer(data.pl_module, listener), watching(split.dataset, listener.see_array)
    with isolate_rng(), of_the_project("loading a sample"), tracer, arrays:
        load_items(split.dataset, split.chosen(SAMPLES))


def caller_of_numpy() -> FrameType | None:
    """Return the frame of the project that operates on an array.

    What libraries do with arrays, as with hues that go round, is their own affair.
    """
    frames = (frame for frame, _ in here_and_outwards())
    frame = next(frame for frame in frames if not is_engine(frame))
    return frame if kind(frame.f_code.co_filename) == "own" else None


def is_engine(frame: FrameType) -> bool:
    return frame.f_globals.get("__name__", "").startswith(ENGINES) and kind(frame.f_code.co_filename) != "own"


@once
def reloaded(data: Data, split: Split) -> tuple[Part, Part]:
    """Load some samples twice, as many of them both times.

    Raises:
        CannotJudge: their inputs are no numbers, or of several sizes.
    """
    chosen = by_index(split).chosen(TWICE)
    parts = [load(split, chosen, data.roles, data.trainer, data.until) for _ in range(2)]
    number = min(len(each.indices) for each in parts)
    for each in parts:
        each.values = {place: values[:number] for place, values in each.values.items()}
    first, second = (each.of(data.roles.input) for each in parts)
    if first is None or second is None or not first.is_floating_point() or first.shape != second.shape:
        raise CannotJudge(f"the inputs of {split.name} are no numbers, or of several sizes")
    return parts[0], parts[1]


@once
def mixed_by_collate(data: Data, split: Split) -> dict[str, int]:
    """Load a few samples together and alone: return what is another one in all of them, and how many."""
    chosen = by_index(split, least=TOGETHER).chosen(TOGETHER)
    together, again = (load(split, chosen, data.roles, data.trainer, data.until).values for _ in range(2))
    alone = [load(split, [index], data.roles, data.trainer, data.until).values for index in chosen]
    found = {}
    for place in sorted((data.roles.inputs | {data.roles.target}) & together.keys() & again.keys()):
        rows = together[place]
        steady = again[place].shape == rows.shape and not differing(rows, again[place]).any()
        known = rows.is_floating_point() and steady and all(place in each for each in alone)
        if known and not any(is_within(each[place][0], row) for each in alone for row in rows):
            found[place] = len(chosen)
    return found


def is_plain(data: Data) -> bool:
    """Whether training samples are the same when they are loaded again."""
    try:
        first, second = reloaded(data, data.train)
    except CannotJudge:
        return False
    return not bool(differing(first.of(data.roles.input), second.of(data.roles.input)).any())
