import os
import time
from pathlib import Path

from pytorch_lightning import Callback


class Stop(Callback):
    """Sends a signal after a number of batches, the first time that the run comes there.

    Args:
        batch: counted from 1, over all epochs.
        signal: its number; 0 sends none.
        mark: a file that says that it was sent.
        rank: the process that does so.
        group: whether to its whole process group, as a terminal does with Ctrl-C.
    """

    def __init__(self, batch: int, signal: int, mark: str, rank: int = 0, group: bool = False) -> None:
        self.batch, self.signal, self.mark, self.rank, self.group = batch, signal, Path(mark), rank, group

    def on_train_batch_end(self, trainer, *arguments):
        if trainer.global_rank == self.rank and trainer.fit_loop.total_batch_idx + 1 == self.batch:
            if self.mark.exists():
                return
            self.mark.touch()
            (os.killpg if self.group else os.kill)(os.getpgrp() if self.group else os.getpid(), self.signal)


class SlowValidation(Callback):
    """Takes `seconds` for the first batch of the second validation, after it has touched `mark`."""

    def __init__(self, seconds: float, mark: str) -> None:
        self.seconds, self.mark = seconds, Path(mark)

    def on_validation_batch_start(self, trainer, pl_module, batch, batch_idx, dataloader_idx=0):
        if trainer.current_epoch == 1 and batch_idx == 0:
            self.mark.touch()
            time.sleep(self.seconds)
