import pytest
import torch
from torch import nn

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


@pytest.fixture
def network(root) -> nn.Module:
    from digit_classifier.models import CNN

    return CNN(image_shape=[1, 28, 28], num_classes=10, dropout=0.2)


def test_layers_and_shapes_are_the_documented_ones(network):
    called = []
    for module in network.modules():
        if not list(module.children()):
            module.register_forward_hook(
                lambda module, inputs, output: called.append((type(module), tuple(output.shape[1:])))
            )
    network(torch.zeros(1, 1, 28, 28))
    assert called == LAYERS
