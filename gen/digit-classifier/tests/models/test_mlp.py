import pytest
import torch
from torch import nn

from digit_classifier.models import MLP


@pytest.mark.parametrize("hidden_sizes", [[], [256], [64, 32]])
def test_layers_have_the_sizes_asked_for(hidden_sizes):
    network = MLP(image_shape=[3, 4, 4], num_classes=10, hidden_sizes=hidden_sizes, dropout=0.1)
    layers = [module for module in network.modules() if isinstance(module, nn.Linear)]
    assert [layer.in_features for layer in layers] == [48, *hidden_sizes]
    assert [layer.out_features for layer in layers] == [*hidden_sizes, 10]
    assert network(torch.zeros(2, 3, 4, 4)).shape == (2, 10)
