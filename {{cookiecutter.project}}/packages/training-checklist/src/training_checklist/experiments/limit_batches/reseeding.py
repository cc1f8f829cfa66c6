"""Random generators that a dataset begins anew for each sample, all with one number."""

import random
from collections.abc import Callable
from contextlib import ExitStack, suppress
from functools import wraps
from typing import Any
from unittest.mock import patch

import numpy as np
import torch

from training_checklist.engines.own_code import pass_on
from training_checklist.engines.places import here_and_outwards, kind, of_frame
from training_checklist.engines.splits import Split, load_items
from training_checklist.engines.tracer import Call, Listener, Tracer
from training_checklist.evidence.loading import Reseeded
from training_checklist.finding import Place
from training_checklist.lightning import Trainer, isolate_rng

SAMPLES = 8
SEEDS = {torch: ["manual_seed"], np.random: ["seed", "default_rng", "RandomState"], random: ["seed", "Random"]}


class Seeds(Listener):
    """While it is entered, keeps the numbers that lines of the project seed with, and what their generators draw."""

    def __init__(self) -> None:
        self.found: dict[Place, Any] = {}
        self.patches = ExitStack()

    def __enter__(self) -> "Seeds":
        for module, names in SEEDS.items():
            for name in names:
                self.patches.enter_context(patch.object(module, name, self._told(getattr(module, name))))
        return self

    def __exit__(self, *error: object) -> None:
        self.patches.close()

    def _told(self, function: Callable[..., Any]) -> Callable[..., Any]:
        keep = self._keep
        if isinstance(function, type):  # the generators that it makes stay of that class

            class Told(function):
                def __init__(self, *given: Any, **options: Any) -> None:
                    keep(given)
                    super().__init__(*given, **options)

            return Told

        @wraps(function)
        def seed(*given: Any, **options: Any) -> Any:
            keep(given)
            return pass_on(function, *given, **options)

        return seed

    def _keep(self, given: Any) -> None:
        frame = next((frame for frame, _ in here_and_outwards() if kind(frame.f_code.co_filename) == "own"), None)
        if frame is not None and given and isinstance(given[0], int):
            self.found[of_frame(frame)] = given[0]

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
    seen: list[dict[Place, Any]] = []
    for index in split.chosen(SAMPLES):
        seeds = Seeds()
        with isolate_rng():
            torch.manual_seed(index)
            with suppress(Exception), seeds, Tracer(trainer.lightning_module, seeds):
                load_items(split.dataset, [index])
        seen.append(seeds.found)
    place = next((line for line, seed in seen[0].items() if all(each.get(line) == seed for each in seen)), None)
    return Reseeded(SAMPLES, None if place is None else seen[0][place], split.place if place is None else place)
