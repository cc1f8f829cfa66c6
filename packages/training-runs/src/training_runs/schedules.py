"""How a learning rate schedule learns the length of training."""

import inspect
from collections.abc import Callable
from functools import partial

from torch.optim import Optimizer
from torch.optim.lr_scheduler import LRScheduler


def build_schedule(
    factory: Callable[..., LRScheduler], optimizer: Optimizer, total_steps: Callable[[], int]
) -> LRScheduler:
    """Call `factory`, a partial from the config, with `total_steps` if that is an argument left open."""
    given = factory.keywords if isinstance(factory, partial) else {}
    if "total_steps" in inspect.signature(factory).parameters and given.get("total_steps") is None:
        return factory(optimizer, total_steps=total_steps())
    return factory(optimizer)
