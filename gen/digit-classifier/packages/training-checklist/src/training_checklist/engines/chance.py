"""How likely chance alone makes what was counted: exact bounds, so that no rule needs a share of its own."""

import math

# What chance makes less often than this is no chance. Some thirty rules look at a few loaders each: one false alarm in
# about ten thousand projects.
CHANCE = 1e-6


def at_least(count: int, of: int, rate: float) -> float:
    """Return an upper bound of the probability of `count` hits or more in `of` draws that hit at `rate` (Chernoff)."""
    if of == 0 or count <= rate * of:
        return 1.0
    return 0.0 if rate <= 0 else math.exp(-of * divergence(count / of, rate))


def at_most(count: int, of: int, rate: float) -> float:
    """Return an upper bound of the probability of `count` hits or fewer."""
    return at_least(of - count, of, 1 - rate)


def divergence(share: float, rate: float) -> float:
    """Return the Kullback-Leibler divergence of two coins, in nats."""
    one = share * math.log(share / rate) if share else 0.0
    other = (1 - share) * math.log((1 - share) / (1 - rate)) if share < 1 else 0.0
    return one + other
