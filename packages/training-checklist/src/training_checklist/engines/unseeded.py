"""Generators of random numbers that the project makes, or seeds, with nothing: the system gives them a seed."""

import random
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch

from training_checklist.engines.generator_makers import made_by
from training_checklist.engines.places import own_frame_at_work

MAKERS = {np.random: ("default_rng", "RandomState", "seed"), random: ("Random", "seed"), torch: ("seed",)}


@contextmanager
def unseeded() -> Iterator[set[tuple[str, int]]]:
    """While it is entered, each such call does what it always does.

    Yields a set that is given file and line of each line of the project that makes one.
    """
    lines: set[tuple[str, int]] = set()

    def keep(given: tuple[Any, ...], options: dict[str, Any]) -> tuple[Any, ...]:
        frame = own_frame_at_work() if all(each is None for each in (*given, *options.values())) else None
        if frame is not None:
            lines.add((frame.f_code.co_filename, frame.f_lineno))
        return given

    with made_by(MAKERS, keep):
        yield lines
