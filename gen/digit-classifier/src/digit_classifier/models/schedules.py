"""Learning rate schedules that torch has not."""

import math

from pydantic import FiniteFloat
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LambdaLR, LRScheduler
from training_config.errors import ConfigError


def warmup_cosine(
    optimizer: Optimizer, total_steps: int, warmup_fraction: float, final_fraction: FiniteFloat
) -> LRScheduler:
    """Rise linearly to the optimizer's rate, then fall along half a cosine; both counted in steps.

    Args:
        optimizer: its `lr` is the peak.
        total_steps: optimizer steps of the whole training.
        warmup_fraction: share of the steps spent rising, 0 to 1 (Goyal et al. 2017, section 2.2).
        final_fraction: rate at the end as a share of the peak (Loshchilov & Hutter 2017, "SGDR", equation 5).
    """
    if not 0 <= warmup_fraction < 1:
        raise ConfigError(f"scheduler.scheduler.warmup_fraction={warmup_fraction} must lie in [0, 1)")
    warmup_steps = round(warmup_fraction * total_steps)

    def factor(step: int) -> float:
        if step < warmup_steps:
            return (step + 1) / (warmup_steps + 1)
        progress = min(1.0, (step - warmup_steps) / max(1, total_steps - warmup_steps))
        return final_fraction + (1 - final_fraction) * (1 + math.cos(math.pi * progress)) / 2

    return LambdaLR(optimizer, factor)
