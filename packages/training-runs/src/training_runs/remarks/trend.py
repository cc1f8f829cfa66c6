"""What of a curve is trend and what is the scatter of its epochs, from the curve itself."""

from bisect import bisect_left, bisect_right, insort
from collections.abc import Sequence
from math import sqrt
from statistics import fmean

SHORTEST = 4  # values: the least whose order can mean anything, since 4 rise by chance in 1 of 4! = 24 cases
SURE = 1.645  # standard deviations of a normal variable that chance exceeds in 5 % of cases, on one side


def rises(values: Sequence[float]) -> bool:
    """Whether later values are larger than earlier ones more often than by chance: the test of Mann and Kendall.

    One-sided at 5 %, with the normal approximation and its correction for continuity (Kendall, Rank Correlation
    Methods, 1975), which is within 0.003 of the exact probability for 4 values already. Whatever the scale: it counts
    pairs.
    """
    count = len(values)
    if count < SHORTEST:
        return False
    ordered = 0  # pairs in rising order less those in falling order
    before: list[float] = []
    for value in values:
        ordered += bisect_left(before, value) - (len(before) - bisect_right(before, value))
        insort(before, value)
    return (ordered - 1) / sqrt(count * (count - 1) * (2 * count + 5) / 18) > SURE


def falls(values: Sequence[float]) -> bool:
    return rises([-value for value in values])


def scatter(values: Sequence[float]) -> float:
    """Return the standard deviation of single values around a smooth curve through them; 0 for a single one.

    From second differences, in which a straight line vanishes: those of independent values with variance s² have
    6 s² (Gasser, Sroka, Jennen-Steinmetz: Residual variance and residual pattern in nonlinear regression, 1986).
    Of two values, from their difference, which has 2 s².
    """
    if len(values) < 3:
        return abs(values[0] - values[-1]) / sqrt(2)
    triples = zip(values, values[1:], values[2:], strict=False)  # each list is one shorter
    return sqrt(fmean((first - 2 * second + third) ** 2 for first, second, third in triples) / 6)
