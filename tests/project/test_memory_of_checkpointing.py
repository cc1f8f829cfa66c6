import pytest
import torch
from hydra.utils import instantiate
from torch import Tensor, nn


@pytest.fixture
def build(compose):
    """`build(*stages)`: a network that recomputes `stages`."""
    return lambda *stages: instantiate(compose(f"model.checkpoint_stages=[{','.join(stages)}]").model).net


def test_fewer_bytes_are_kept_for_backward(build):
    assert bytes_kept(build("stage1", "stage2", "stage3")) < bytes_kept(build("stage1")) < bytes_kept(build())


def bytes_kept(network: nn.Module) -> int:
    """Bytes that forward saves for backward. Hooks inside a checkpointed stage are the checkpoint's own."""
    kept = {}

    def pack(tensor: Tensor) -> Tensor:
        kept[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage().nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        loss = network(torch.rand(4, 1, 28, 28)).square().mean()
    loss.backward()
    return sum(kept.values())
