import pytest
from torch import nn

from digit_classifier.models.parameter_groups import parameter_groups


@pytest.fixture
def network() -> nn.Sequential:
    return nn.Sequential(nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2), nn.Flatten(), nn.LayerNorm(8), nn.Linear(8, 2))


def names(network: nn.Module, group: dict) -> list[str]:
    return [name for name, parameter in network.named_parameters() if any(parameter is p for p in group["params"])]


def test_norms_and_biases_are_not_decayed(network):
    decayed, undecayed = parameter_groups(network, decay_norms_and_biases=False)
    assert names(network, decayed) == ["0.weight", "4.weight"]
    assert names(network, undecayed) == ["0.bias", "1.weight", "1.bias", "3.weight", "3.bias", "4.bias"]
    assert "weight_decay" not in decayed  # the optimizer's own
    assert undecayed["weight_decay"] == 0


def test_all_are_decayed_on_request(network):
    [group] = parameter_groups(network, decay_norms_and_biases=True)
    assert names(network, group) == [name for name, _ in network.named_parameters()]
    assert "weight_decay" not in group


@pytest.mark.parametrize("decay_norms_and_biases", [False, True])
def test_every_trainable_parameter_is_in_one_group_once(network, decay_norms_and_biases):
    network[0].requires_grad_(False)
    network[4].weight = network[4].weight  # registered anew, still one parameter
    groups = parameter_groups(network, decay_norms_and_biases)
    grouped = [id(parameter) for group in groups for parameter in group["params"]]
    trainable = [id(parameter) for parameter in network.parameters() if parameter.requires_grad]
    assert sorted(grouped) == sorted(trainable)


def test_group_without_parameters_is_left_out():
    [group] = parameter_groups(nn.Linear(2, 2, bias=False), decay_norms_and_biases=False)
    assert len(group["params"]) == 1
