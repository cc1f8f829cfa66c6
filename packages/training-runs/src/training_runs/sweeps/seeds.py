"""Jobs of a sweep that differ in their seed alone: one setting, tried several times."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import mean, stdev

SEED = "seed"


@dataclass(frozen=True)
class Setting:
    """What the jobs of one setting came to."""

    overrides: Mapping[str, str]  # without the seed
    scores: Sequence[float]

    @property
    def mean(self) -> float:
        return mean(self.scores)

    @property
    def spread(self) -> float:
        """The standard deviation of a sample (n - 1); 0 of one job."""
        return stdev(self.scores) if len(self.scores) > 1 else 0.0


def settings(overrides: Sequence[Mapping[str, str]], scores: Sequence[float]) -> list[Setting]:
    """Return the settings that were tried, in the order of their first jobs.

    Args:
        overrides: for each job, the value of every swept key.
        scores: for each job.
    """
    found: dict[tuple[tuple[str, str], ...], list[float]] = {}
    for job, score in zip(overrides, scores, strict=True):
        found.setdefault(tuple((key, value) for key, value in job.items() if key != SEED), []).append(score)
    return [Setting(dict(values), each) for values, each in found.items()]
