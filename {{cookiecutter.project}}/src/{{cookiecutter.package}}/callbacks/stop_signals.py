"""Signals that ask the process to stop, kept until training is at a point where it can."""

import signal
import threading
from types import FrameType


class StopSignals:
    """From `begin` to `end`, a first SIGINT or SIGTERM is only remembered; the next one acts as it did before."""

    def __init__(self) -> None:
        self.received: int | None = None
        self._former: dict[int, object] = {}

    def begin(self, *signals: int) -> None:
        """Catch `signals` too. In the main thread alone: Python delivers signals nowhere else."""
        if threading.current_thread() is threading.main_thread():
            self._former |= {number: signal.signal(number, self._receive) for number in signals}

    def end(self) -> None:
        """Put the former handlers back."""
        for number, handler in self._former.items():
            signal.signal(number, handler)
        self._former = {}
        self.received = None

    def _receive(self, number: int, frame: FrameType | None) -> None:
        former = self._former.get(number, signal.default_int_handler)
        if self.received is None and number in self._former:
            self.received = number
        elif callable(former):
            former(number, frame)
        else:
            raise SystemExit(128 + number)
