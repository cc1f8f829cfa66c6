"""How far each rank has come, written down for the process that watches them."""

import faulthandler
import os
import signal
from pathlib import Path
from typing import Any

from pytorch_lightning import Callback

from training_runs.launching import ranks


class Progress(Callback):
    """Counts what this rank has got through, in a file; on SIGUSR2 the stacks of all its threads go to another.

    Several times a batch, so that of ranks which wait for each other the one that is waited for has come least far.
    To be the last of the callbacks: a rank that stays in one of them has not counted it.
    """

    def __init__(self, folder: Path) -> None:
        self.count = 0
        self.progress = os.open(folder / f"progress.{ranks.rank()}", os.O_WRONLY | os.O_CREAT)
        if hasattr(signal, "SIGUSR2"):  # not on Windows
            self.stack = (folder / f"stack.{ranks.rank()}").open("w")
            faulthandler.register(signal.SIGUSR2, self.stack)

    def further(self, *arguments: Any) -> None:
        self.count += 1
        os.lseek(self.progress, 0, os.SEEK_SET)
        os.write(self.progress, f"{os.getpid()} {self.count}".encode())

    on_train_start = on_train_end = on_test_start = on_test_end = further
    on_train_batch_start = on_before_backward = on_after_backward = on_train_batch_end = further
    on_validation_batch_start = on_validation_batch_end = on_test_batch_start = on_test_batch_end = further
    on_save_checkpoint = further
