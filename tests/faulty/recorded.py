"""Callbacks that write down what a test cannot see from outside."""

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import torch
from pytorch_lightning import Callback, Trainer
from torch import distributed
from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import allreduce_hook

RANK_VARIABLES = {"RANK", "LOCAL_RANK", "NODE_RANK", "MASTER_ADDR", "MASTER_PORT", "WORLD_SIZE"}


class ProcessState(Callback):
    """Writes to `path`, at the start of a job that runs in the sweep's own process, what other jobs have left there."""

    def __init__(self, path: str) -> None:
        if "TORCHELASTIC_RUN_ID" in os.environ:
            return
        state = {
            "variables": sorted(RANK_VARIABLES & set(os.environ)),
            "process_group": distributed.is_initialized(),
            "cuda": torch.cuda.is_initialized(),
            "children": children(),
        }
        Path(path).write_text(json.dumps(state), encoding="utf-8")


class ReductionCount(Callback):
    """Writes to `path` how often gradients were reduced over the ranks."""

    def __init__(self, path: str) -> None:
        self.path = Path(path)
        self.count = 0

    def on_train_start(self, trainer: Trainer, pl_module: Any) -> None:
        trainer.strategy.model.register_comm_hook(None, self.reduce)

    def reduce(self, group: Any, bucket: distributed.GradBucket) -> torch.futures.Future[torch.Tensor]:
        self.count += bucket.is_last()
        return allreduce_hook(group, bucket)

    def on_train_end(self, trainer: Trainer, pl_module: Any) -> None:
        if trainer.is_global_zero:
            self.path.write_text(str(self.count), encoding="utf-8")


def children() -> list[str]:
    """Return the names of this process's children."""
    names = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            text = stat.read_text(encoding="utf-8", errors="replace")
        except OSError:  # it has ended
            continue
        name, _, fields = text.partition("(")[2].rpartition(")")
        if int(fields.split()[1]) == os.getpid():
            names.append(name)
    return names


class TimeLimit(Callback):
    """Has SLURM tell its job that the time is nearly over, once, after the third batch of the second epoch."""

    def on_train_batch_end(self, trainer: Trainer, *args: Any) -> None:
        first = "SLURM_RESTART_COUNT" not in os.environ
        if first and trainer.is_global_zero and (trainer.current_epoch, trainer.global_step) == (1, 10):
            subprocess.run(["scancel", "--signal=USR1", os.environ["SLURM_JOB_ID"]], check=True)
