"""FSDP2: parameters, gradients and the optimizer's state in shards, each process holding its own."""

from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import torch
from pytorch_lightning.strategies import ModelParallelStrategy
from pytorch_lightning.utilities.model_helpers import is_overridden
from torch import nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.fsdp import FSDPModule, fully_shard
from torch.optim import Optimizer


def shard(pl_module: nn.Module, mesh: DeviceMesh) -> None:
    """Shard each network that a LightningModule has as an attribute, in place; names of parameters stay the same.

    A layer is a unit, whose parameters are whole while it computes: a child of a network, or one in a Sequential,
    ModuleList or ModuleDict. What is left over is the last unit. The LightningModule's own parameters are not averaged
    over processes, nor are BatchNorm's statistics; one that two layers share is refused by torch.
    """
    for network in pl_module.children():
        if next(network.parameters(), None) is None or isinstance(network, FSDPModule):  # a second call, before testing
            continue
        network.to(memory_format=torch.contiguous_format)  # channels-last weights are refused
        for part in [*layers(network), network]:
            fully_shard(part, mesh=mesh["data_parallel"])


def layers(network: nn.Module) -> Iterator[nn.Module]:
    for child in network.children():
        if isinstance(child, (nn.Sequential, nn.ModuleList, nn.ModuleDict)):
            yield from layers(child)
        else:
            yield child


class FSDP2Strategy(ModelParallelStrategy):
    """Lightning's ModelParallelStrategy where all processes share one batch, with one file as a checkpoint.

    A LightningModule that has no `configure_model` gets one that calls `shard`.

    Torch 2.15 makes a step of an optimizer that has made none when its state is asked for, which Adam counts: the
    checkpoint before the first epoch would change the training. Such a state is cleared. Can go when torch leaves it.
    """

    def __init__(self) -> None:
        super().__init__(tensor_parallel_size=1, save_distributed_checkpoint=False)

    def setup_environment(self) -> None:
        self._data_parallel_size = self.num_nodes * self.num_processes  # Lightning's auto: one for each node
        super().setup_environment()
        if not is_overridden("configure_model", self.lightning_module):
            self.lightning_module.configure_model = partial(shard, self.lightning_module, self.device_mesh)

    def optimizer_state(self, optimizer: Optimizer) -> dict[str, Any]:
        is_fresh = not optimizer.state
        state = super().optimizer_state(optimizer)
        if is_fresh:
            optimizer.state.clear()
        return state

    def load_checkpoint(self, checkpoint_path: str | Path, weights_only: bool | None = None) -> Mapping[str, Any]:
        checkpoint = super().load_checkpoint(checkpoint_path, weights_only)
        if checkpoint["global_step"] == 0:
            for optimizer in self.optimizers:
                optimizer.state.clear()
        return checkpoint
