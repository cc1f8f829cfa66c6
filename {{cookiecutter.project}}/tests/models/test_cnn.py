import pytest
import torch
from torch import nn

from {{ cookiecutter.package }}.errors import ConfigError
from {{ cookiecutter.package }}.models import CNN

# (layer, its output for one image of (1, 28, 28))
LAYERS = [
    (nn.Conv2d, (16, 24, 24)),
    (nn.ReLU, (16, 24, 24)),
    (nn.Conv2d, (32, 20, 20)),
    (nn.ReLU, (32, 20, 20)),
    (nn.MaxPool2d, (32, 10, 10)),
    (nn.Dropout, (32, 10, 10)),
    (nn.Conv2d, (64, 6, 6)),
    (nn.ReLU, (64, 6, 6)),
    (nn.MaxPool2d, (64, 3, 3)),
    (nn.Dropout, (64, 3, 3)),
    (nn.Linear, (10,)),
]


def test_layers_and_shapes_are_the_documented_ones():
    network = CNN(image_shape=[1, 28, 28], num_classes=10, dropout=0.2)
    called = []
    for module in network.modules():
        if not list(module.children()):
            module.register_forward_hook(
                lambda module, inputs, output: called.append((type(module), tuple(output.shape[1:])))
            )
    network(torch.zeros(1, 1, 28, 28))
    assert called == LAYERS


def test_convolutions_are_five_by_five_and_the_head_takes_576_features():
    network = CNN(image_shape=[1, 28, 28], num_classes=10, dropout=0.2)
    shapes = [tuple(parameter.shape) for parameter in network.parameters() if parameter.ndim > 1]
    assert shapes == [(16, 1, 5, 5), (32, 16, 5, 5), (64, 32, 5, 5), (10, 576)]
    assert sum(parameter.numel() for parameter in network.parameters()) == 70_282


def test_dropout_is_the_one_asked_for():
    network = CNN(image_shape=[1, 28, 28], num_classes=10, dropout=0.3)
    assert [module.p for module in network.modules() if isinstance(module, nn.Dropout)] == [0.3, 0.3]


@pytest.mark.parametrize("image_shape", [(3, 32, 32), (1, 20, 20), (1, 20, 41)])
def test_other_image_shapes_reach_the_classes(image_shape):
    network = CNN(image_shape=image_shape, num_classes=4, dropout=0.2)
    assert network(torch.zeros(2, *image_shape)).shape == (2, 4)


@pytest.mark.parametrize("image_shape", [(1, 19, 28), (1, 28, 19), (1, 4, 4)])
def test_image_too_small_for_the_layers_is_refused_with_the_least_size(image_shape):
    with pytest.raises(ConfigError, match=r"data\.image_shape=.* is too small for this network; 20x20 is the least"):
        CNN(image_shape=image_shape, num_classes=10, dropout=0.2)
