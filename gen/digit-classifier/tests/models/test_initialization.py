import pytest
import torch
from torch import nn

from digit_classifier.models import CNN
from digit_classifier.models.initialization import INITIALIZATIONS, kaiming_normal


@pytest.fixture
def network() -> CNN:
    torch.manual_seed(0)
    return CNN(image_shape=[1, 28, 28], num_classes=10, dropout=0.2)


def test_kaiming_normal_draws_weights_with_the_variance_of_the_paper(network):
    kaiming_normal(network)
    for layer in (network.stage2[0], network.stage3[0], network.head):
        fan_in = layer.weight[0].numel()
        assert layer.weight.std().item() == pytest.approx((2 / fan_in) ** 0.5, rel=0.02)
        assert layer.weight.mean().item() == pytest.approx(0, abs=0.002)


def test_kaiming_normal_sets_biases_to_zero(network):
    kaiming_normal(network)
    biases = [parameter for name, parameter in network.named_parameters() if name.endswith("bias")]
    assert len(biases) == 4
    assert not any(bias.any() for bias in biases)


def test_kaiming_normal_takes_layers_without_bias():
    kaiming_normal(nn.Linear(2, 2, bias=False))


def test_pytorch_keeps_what_the_layers_drew(network):
    before = {name: tensor.clone() for name, tensor in network.state_dict().items()}
    INITIALIZATIONS["pytorch"](network)
    assert all(torch.equal(tensor, before[name]) for name, tensor in network.state_dict().items())
