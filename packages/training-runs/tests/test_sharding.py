import pytest
import torch
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from torch import distributed, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FSDPModule
from training_runs.loggers import TensorBoardLogger
from training_runs.sharding import shard


@pytest.fixture
def mesh():
    """A mesh as Lightning makes it, of this process alone."""
    distributed.init_process_group("gloo", rank=0, world_size=1, store=distributed.HashStore())
    yield init_device_mesh("cpu", (1, 1), mesh_dim_names=("data_parallel", "tensor_parallel"))
    distributed.destroy_process_group()


def network() -> nn.Module:
    return nn.Sequential(nn.Sequential(nn.Conv2d(1, 2, 3), nn.Flatten()), nn.ModuleList([nn.Linear(8, 8)]))


def test_every_layer_is_a_unit_under_its_own_name(mesh):
    module = nn.ModuleDict({"net": network().to(memory_format=torch.channels_last), "criterion": nn.CrossEntropyLoss()})
    names = [*module.state_dict()]
    for _ in ("training", "testing"):
        shard(module, mesh)
    units = [name for name, part in module.named_modules() if isinstance(part, FSDPModule)]
    assert units == ["net", "net.0.0", "net.0.1", "net.1.0"]
    assert [*module.state_dict()] == names


def test_sharded_network_has_no_graph(mesh, tmp_path):
    module = nn.ModuleDict({"net": nn.Sequential(nn.Linear(1, 1))})
    shard(module, mesh)
    logger = TensorBoardLogger(save_dir=tmp_path, name="", version="")
    logger.log_graph(module, torch.zeros(1, 1))
    logger.finalize("success")
    assert not EventAccumulator(str(tmp_path)).Reload().Tags()["graph"]
