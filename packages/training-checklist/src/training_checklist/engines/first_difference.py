"""Where two runs part. The only comparison: of seeds, of ranks, of passes over the same data, of resumed steps."""

import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any, Generic, TypeVar

T = TypeVar("T")


@dataclass(frozen=True)
class Difference(Generic[T]):
    """Args:
    index: position in both runs.
    one: what the first run has there, None where it has ended.
    two: likewise.
    """

    index: int
    one: T | None
    two: T | None


def first_difference(
    one: Iterable[T], two: Iterable[T], relation: Callable[[T, T], bool] = operator.eq
) -> Difference[T] | None:
    """Return the first pair for which `relation` does not hold, or None. A run that ends earlier differs there."""
    end = object()
    for index, (mine, other) in enumerate(zip_longest(one, two, fillvalue=end)):
        if mine is end or other is end or not relation(mine, other):
            return Difference(index, None if mine is end else mine, None if other is end else other)
    return None


def close(rtol: float) -> Callable[[float, float], bool]:
    """Return a relation of numbers that allows a relative difference; NaN is close to NaN."""

    def holds(one: float, two: float) -> bool:
        return abs(one - two) <= rtol * max(abs(one), abs(two)) or (one != one and two != two)

    return holds


def differing_names(runs: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the names under which not all runs hold the same value; those of the first run count."""
    return [name for name, value in runs[0].items() if any(name not in run or run[name] != value for run in runs[1:])]
