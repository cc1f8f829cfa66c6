"""Numbers that are drawn around what the network answers."""

import pytest
import torch
from torch import nn
from torch.distributions import Normal

CASES = {
    "reparameterised": (lambda mean, std: mean + std * torch.randn_like(std), False),
    "rsample": (lambda mean, std: Normal(mean, std).rsample(), False),
    "noise of fixed size": (lambda mean, std: mean + torch.normal(0.0, 1.0, std.shape), False),
    "straight through": (lambda mean, std: mean + (torch.normal(mean, std) - mean).detach(), False),
    "torch.normal": (lambda mean, std: torch.normal(mean, std), True),
    "sample": (lambda mean, std: Normal(mean, std).sample(), True),
}


@pytest.mark.parametrize("case", CASES)
def test_gradient_passes_through_what_is_drawn(examine, net, data, case):
    draw, faulty = CASES[case]

    class Noisy(net):
        def __init__(self):
            super().__init__()
            self.std = nn.Linear(8, 32)

        def forward(self, inputs):
            return self.head(draw(self.first(inputs), self.std(inputs).exp()))

    found = [each.rule for each in examine("trace", Noisy(), data()).findings]
    assert found.count("network/drawn-without-gradient") == faulty


def test_policy_gradient_needs_no_gradient_of_the_action(examine, net, data):
    class Policy(net):
        def loss(self, batch):
            policy = Normal(self(batch[0]), 1.0)
            action = policy.sample()
            reward = -(action - batch[1][:, None]).square()
            return -(policy.log_prob(action) * reward).mean()

    verdict = examine("trace", Policy(), data())
    assert "network/drawn-without-gradient" not in {each.rule for each in verdict.findings}
