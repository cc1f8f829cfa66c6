"""How likely chance alone makes what was counted: exact bounds, so that no rule needs a share of its own."""

import math
import random
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from itertools import permutations

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


LISTED = 7  # values, all of whose 5040 orders are gone through
DRAWN = 999  # orders of more values


def of_one_order(one: Sequence[float], two: Sequence[float]) -> float:
    """Return the probability that, in a random order, `two` rises with `one` as much as it does, or more.

    By Spearman's rank correlation (1904), exactly for few values. For more, random orders are drawn, and the one that
    was seen is counted among them (Phipson and Smyth 2010).
    """
    ranks, seen = ranked(one), ranked(two)
    # Orders of the same ranks correlate as their products add up.
    common = sum(first * second for first, second in zip(ranks, seen, strict=True))
    orders: Iterable[Sequence[float]] = permutations(seen)
    if len(seen) > LISTED:
        generator = random.Random(0)  # the run's own random numbers stay as they are
        orders = [seen, *(generator.sample(seen, len(seen)) for _ in range(DRAWN))]
    reached = [sum(first * second for first, second in zip(ranks, order, strict=True)) >= common for order in orders]
    return sum(reached) / len(reached)


def ranked(values: Sequence[float]) -> list[float]:
    """Return the rank of each value, from 0 on; equal ones share the mean of theirs."""
    ordered = sorted(values)
    return [(bisect_left(ordered, value) + bisect_right(ordered, value) - 1) / 2 for value in values]
