"""A failure at a chosen moment of a run."""

import os
import signal
import threading
from pathlib import Path
from typing import Any

from pytorch_lightning import Callback, Trainer

REPAIRED = "PLANTED_FAILURES_REPAIRED"  # variable under which nothing fails: the mistake has been found


class PlantedFailure(Callback):
    """Fails as `kind` says: <moment>_<action>_<rank>, or never.

    The moment is constructor (no process group exists yet), batch (the second) or fit_end; the action raise, kill
    (SIGKILL), interrupt (SIGINT), stop (SIGSTOP), hang, or leave (without a word, exit code 0).

    Args:
        kind: see above.
        once: a file that is made when it fails; where it lies already, nothing does.
    """

    def __init__(self, kind: str, once: str | None = None) -> None:
        self.kind, self.once = kind, None if once is None else Path(once)
        self.reach("constructor", os.environ.get("RANK", "0"))

    def reach(self, moment: str, rank: int | str) -> None:
        if REPAIRED in os.environ or (self.once is not None and self.once.exists()):
            return
        if self.once is not None and self.kind.startswith(moment):
            self.once.touch()
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
