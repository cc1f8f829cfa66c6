import pytest
import torch
from torch import nn
from training_config.errors import ConfigError

from digit_classifier.models import CNN


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
