"""Generators of random numbers that the project makes, or seeds, with nothing: the system gives them a seed."""

import random
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import wraps
from typing import Any
from unittest.mock import patch

import numpy as np
import torch

from training_checklist.engines.own_code import pass_on
from training_checklist.engines.places import here_and_outwards, kind

MAKERS = {np.random: ("default_rng", "RandomState", "seed"), random: ("Random", "seed"), torch: ("seed",)}


@contextmanager
def unseeded() -> Iterator[set[tuple[str, int]]]:
    """While it is entered, each such call does what it always does.

    Yields a set that is given file and line of each line of the project that makes one.
    """
    lines: set[tuple[str, int]] = set()

    def keep(given: tuple[Any, ...], options: dict[str, Any]) -> None:
        if all(each is None for each in (*given, *options.values())):
            frame = next((frame for frame, _ in here_and_outwards() if kind(frame.f_code.co_filename) == "own"), None)
            if frame is not None:
                lines.add((frame.f_code.co_filename, frame.f_lineno))

    with ExitStack() as patches:
        for module, names in MAKERS.items():
            for name in names:
                patches.enter_context(patch.object(module, name, told(getattr(module, name), keep)))
        yield lines


def told(function: Any, keep: Callable[..., None]) -> Any:
    if isinstance(function, type):  # the generators that it makes stay of that class

        class Told(function):
            def __init__(self, *given: Any, **options: Any) -> None:
                keep(given, options)
                super().__init__(*given, **options)

        return Told

    @wraps(function)
    def call(*given: Any, **options: Any) -> Any:
        keep(given, options)
        return pass_on(function, *given, **options)

    return call
