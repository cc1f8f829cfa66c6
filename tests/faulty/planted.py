"""A failure at a chosen moment of a run."""

import os
import signal
import threading
from typing import Any

from pytorch_lightning import Callback, Trainer

REPAIRED = "PLANTED_FAILURES_REPAIRED"  # variable under which nothing fails: the mistake has been found


class PlantedFailure(Callback):
    """Fails as `kind` says: <moment>_<action>_<rank>, or never.

    The moment is constructor (no process group exists yet), batch (the second) or fit_end; the action raise, kill
    (SIGKILL), interrupt (SIGINT), stop (SIGSTOP), hang, or leave (without a word, exit code 0).
    """

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.reach("constructor", os.environ.get("RANK", "0"))

    def reach(self, moment: str, rank: int | str) -> None:
        if REPAIRED in os.environ:
            return
        if self.kind == f"{moment}_raise_{rank}":
            raise RuntimeError(f"planted: {self.kind}")
        if self.kind == f"{moment}_kill_{rank}":
            os.kill(os.getpid(), signal.SIGKILL)
        if self.kind == f"{moment}_interrupt_{rank}":
            os.kill(os.getpid(), signal.SIGINT)
        if self.kind == f"{moment}_stop_{rank}":
            os.kill(os.getpid(), signal.SIGSTOP)
        if self.kind == f"{moment}_hang_{rank}":
            threading.Event().wait()
        if self.kind == f"{moment}_leave_{rank}":
            os._exit(0)

    def on_train_batch_start(self, trainer: Trainer, pl_module: Any, batch: Any, batch_idx: int) -> None:
        if batch_idx == 1:
            self.reach("batch", trainer.global_rank)

    def on_fit_end(self, trainer: Trainer, pl_module: Any) -> None:
        self.reach("fit_end", trainer.global_rank)
