"""What the processes of a job find in their environment before they start, and their start where forks will do."""

import os
import subprocess
import sys
from typing import Any

from hydra.experimental.callback import Callback
from omegaconf import DictConfig, OmegaConf
from training_config.processes import device_count, needs_processes

from training_checklist.ending import AMONG_ALL
from training_checklist.engines.own_config import own_config
from training_checklist.experiments.distributed.forked_ranks import ForkedRanks, can_be_forked
from training_checklist.experiments.distributed.peers import wait_for
from training_checklist.hydra_callbacks.one_device import without_fp16

PROBE_SECONDS = 30
# DDP in one process: what it takes to see whether TORCH_DISTRIBUTED_DEBUG=DETAIL is safe. With gloo it ends in a
# segmentation fault in torch 2.15.
PROBE = """
import torch
from torch import distributed
torch.cuda.set_device(0)
distributed.init_process_group("nccl", store=distributed.HashStore(), rank=0, world_size=1)
torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(2, 2).cuda(), device_ids=[0])
"""


class Processes(Callback):
    """Hydra's callback that chooses the devices and how much torch says; what is set already stays.

    Where the ranks can be forks of this process, they are made here, before one of them enters the training function.
    """

    def on_run_start(self, config: DictConfig, **kwargs: Any) -> None:
        self.own: list[str] = []
        self._set("DEBUG_ACCELERATOR", "gpu" if number_of_gpus() > 1 else "cpu")
        without_fp16(config)

    def on_job_start(self, config: DictConfig, **kwargs: Any) -> None:
        gpus = number_of_gpus()
        accelerator = OmegaConf.select(config, "trainer.accelerator", default="auto")
        on_gpus = gpus > 0 and accelerator in ("auto", "gpu", "cuda")
        self._set("DEBUG_DEVICES", str(gpus if on_gpus else 2))
        if "TORCH_DISTRIBUTED_DEBUG" not in os.environ:
            # INFO names unused parameters; DETAIL also compares the ranks' collectives.
            self._set("TORCH_DISTRIBUTED_DEBUG", "DETAIL" if on_gpus and survives_detail() else "INFO")
        if on_gpus:
            self._set("TORCH_NCCL_BLOCKING_WAIT", "1")  # a collective that waits too long raises where it was called
        if can_be_forked(config):
            ForkedRanks(device_count(config.trainer))

    def on_job_end(self, config: DictConfig, **kwargs: Any) -> None:
        if ForkedRanks.current is not None:
            wait_for(ForkedRanks.current.others)
        for name in self.own:
            os.environ.pop(name, None)

    def _set(self, name: str, value: str) -> None:
        if name not in os.environ:
            os.environ[name] = value
            self.own.append(name)


def number_of_gpus() -> int:
    import torch

    return torch.cuda.device_count()  # which initialises none


def survives_detail() -> bool:
    """Whether DDP can be built on this machine's GPUs with TORCH_DISTRIBUTED_DEBUG=DETAIL."""
    environment = os.environ | {"TORCH_DISTRIBUTED_DEBUG": "DETAIL"}
    try:
        done = subprocess.run(
            [sys.executable, "-c", PROBE], env=environment, capture_output=True, timeout=PROBE_SECONDS, check=False
        )
    except subprocess.TimeoutExpired:
        return False
    return done.returncode == 0


def asks_for_processes() -> bool:
    """Whether several processes are asked for: by who asks for this item alone, or by the project's own config.

    True, too, where that is not known.
    """
    if AMONG_ALL not in os.environ:
        return True
    config = own_config()
    return config is None or needs_processes(config.get("trainer"))
