"""Which steps are looked at: as many as a share of the time pays for."""

from collections import deque
from statistics import median, median_low

SETTLING = 5  # first steps that are not typical: buffers are allocated, kernels chosen
RECENT = 100  # steps of whose time the median is what a step takes now


class Pace:
    """Lets looks take at most `share` of the time of all steps.

    What a look costs is measured: the time of its step, less the median of the steps that are not looked at. The next
    one is due when the time of all steps so far pays for those that have been and for one more.
    """

    def __init__(self, share: float) -> None:
        self.share = share
        self.elapsed = 0.0  # seconds of steps
        self.steps = 0
        self.costs: list[float] = []
        self._recent: deque[float] = deque(maxlen=RECENT)
        self._due = 0.0  # seconds of steps at which the next look is paid for

    @property
    def is_due(self) -> bool:
        return self.elapsed >= self._due and self.steps >= SETTLING

    @property
    def spent(self) -> float:
        """Seconds that all looks have taken."""
        return sum(self.costs)

    def add_step(self, seconds: float) -> None:
        """Count a step that was not looked at."""
        self.steps += 1
        self.elapsed += seconds
        self._recent.append(seconds)

    def add_look(self, seconds: float) -> None:
        """Count a step that was looked at."""
        usual = median(self._recent)
        self.steps += 1
        self.elapsed += min(seconds, usual)
        self.costs.append(max(seconds - usual, 0.0))
        self._due = (self.spent + median_low(self.costs)) / self.share
