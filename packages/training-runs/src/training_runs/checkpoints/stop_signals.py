"""Signals that ask the process to stop, kept until training is at a point where it can."""

import os
import signal
import threading
from types import FrameType

from pytorch_lightning import Trainer
from torch.distributed import TCPStore

ASKED, STEP = "stop/asked", "stop/step"


class StopSignals:
    """From `begin` to `end`, a first signal is only remembered; the next one acts as it did before."""

    def __init__(self) -> None:
        self.received: int | None = None
        self._step: int | None = None  # at which all ranks stop
        self._store: TCPStore | None = None
        self._former: dict[int, object] = {}

    def begin(self, *signals: int) -> None:
        """Catch `signals` too, unless they are ignored. In the main thread alone: Python delivers them nowhere else."""
        if threading.current_thread() is not threading.main_thread():
            return
        for number in signals:
            if signal.getsignal(number) != signal.SIG_IGN:
                self._former[number] = signal.signal(number, self._receive)

    def end(self) -> None:
        """Put the former handlers back, unless others have: Lightning's hold its Trainer, and all before it."""
        for number, handler in self._former.items():
            if signal.getsignal(number) == self._receive:
                signal.signal(number, handler)
        self._former = {}

    def due(self, trainer: Trainer) -> bool:
        """Whether to stop now; to be asked after every step, and at the same steps on all ranks.

        Ranks learn of a signal at different times, and one that leaves alone makes the others hang. So each goes on
        until all have been asked, and the last one sets the step: the next, which no rank can finish without it.
        """
        if self.received is None:
            return False
        if trainer.world_size == 1:
            return True
        if self._store is None:
            self._store = TCPStore(os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]), is_master=False)
            if self._store.add(ASKED, 1) == trainer.world_size:
                self._store.set(STEP, str(trainer.global_step + 1))
        if self._step is None and self._store.check([STEP]):
            self._step = int(self._store.get(STEP))
        return self._step is not None and trainer.global_step >= self._step

    def _receive(self, number: int, frame: FrameType | None) -> None:
        former = self._former.get(number, signal.default_int_handler)
        if self.received is None and number in self._former:
            self.received = number
        elif callable(former):
            former(number, frame)
        else:
            raise SystemExit(128 + number)
