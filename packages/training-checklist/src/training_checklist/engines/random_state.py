"""Random generators that objects keep for themselves, and their states."""

import random
from typing import Any

import numpy
import torch

GENERATORS = (numpy.random.Generator, numpy.random.RandomState, random.Random, torch.Generator)


def state_of(generator: Any) -> Any:
    """Return where a generator stands, for `with_state`."""
    if isinstance(generator, numpy.random.Generator):
        return generator.bit_generator.state
    return generator.getstate() if isinstance(generator, random.Random) else generator.get_state()


def with_state(generator: Any, state: Any) -> None:
    """Put a generator where it stood."""
    if isinstance(generator, numpy.random.Generator):
        generator.bit_generator.state = state
    elif isinstance(generator, random.Random):
        generator.setstate(state)
    else:
        generator.set_state(state)


def move_on(generator: Any, draws: int) -> None:
    """Draw some numbers from a generator."""
    if isinstance(generator, torch.Generator):
        torch.rand(draws, generator=generator, device=generator.device)
    elif isinstance(generator, random.Random):
        for _ in range(draws):
            generator.random()
    else:
        generator.random(draws)
