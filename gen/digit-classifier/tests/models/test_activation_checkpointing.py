import pytest
import torch
from torch import Tensor
from training_config.errors import ConfigError

from digit_classifier.models import CNN
from digit_classifier.models.activation_checkpointing import checkpoint_stages


@pytest.fixture
def build():
    """`build(*stages)`: a network with dropout, always of the same weights, that recomputes `stages`."""

    def run(*stages: str) -> CNN:
        torch.manual_seed(0)
        network = CNN(image_shape=[1, 28, 28], num_classes=10, dropout=0.5)
        checkpoint_stages(network, stages)
        return network

    return run


def loss_of(network: CNN) -> Tensor:
    torch.manual_seed(1)  # dropout's
    return network(torch.rand(4, 1, 28, 28)).square().mean()


@pytest.mark.parametrize("stages", [["stage1"], ["stage1", "stage2", "stage3"], ["stage2.0"]])
def test_loss_and_gradients_are_the_same_to_the_last_bit(build, stages):
    plain, checkpointed = build(), build(*stages)
    losses = [loss_of(network) for network in (plain, checkpointed)]
    for loss in losses:
        torch.manual_seed(2)  # what happens between forward and backward does not reach the recomputation
        loss.backward()
    assert torch.equal(*losses)
    for ours, theirs in zip(checkpointed.parameters(), plain.parameters(), strict=True):
        assert torch.equal(ours.grad, theirs.grad)


def test_weights_keep_their_names(build):
    assert build("stage1").state_dict().keys() == build().state_dict().keys()


@pytest.mark.parametrize("stage", ["stage4", ""])
def test_unknown_stage_is_an_error_that_names_the_stages(build, stage):
    with pytest.raises(ConfigError, match=f"no stage {stage!r}; it has stage1, stage2, stage3, head"):
        build(stage)
