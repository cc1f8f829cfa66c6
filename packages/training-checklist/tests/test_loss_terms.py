"""Terms of a loss: means beside sums."""

import pytest
import torch
from torch import nn
from torch.nn import functional


def squares(answers, targets):
    return (answers - targets) ** 2


CASES = {
    "two means": (lambda a, t: squares(a, t).mean() + 0.1 * a.abs().mean(), False),
    "two sums": (lambda a, t: squares(a, t).sum() + 0.1 * a.abs().sum(), False),
    "a sum over features and a mean over samples": (
        lambda a, t: functional.mse_loss(a, t) + 0.1 * a.abs().sum(1).mean(),
        False,
    ),
    "a sum that is divided": (lambda a, t: functional.mse_loss(a, t) + a.abs().sum() / len(a), False),
    "terms that are stacked": (lambda a, t: torch.stack([squares(a, t).mean(), a.abs().mean()]).sum(), False),
    "a sum beside a mean": (lambda a, t: functional.mse_loss(a, t) + 0.1 * a.abs().sum(), True),
    "a mean beside a sum": (lambda a, t: functional.mse_loss(a, t, reduction="sum") + a.abs().mean(), True),
}


@pytest.mark.parametrize("case", CASES)
def test_sum_beside_mean(examine, net, data, case):
    loss, faulty = CASES[case]

    class Two(net):
        def loss(self, batch):
            inputs, targets = batch
            return loss(self(inputs), nn.functional.one_hot(targets, 4).float())

    found = [each for each in examine("trace", Two(), data()).findings if each.rule == "network/sum-beside-mean"]
    assert len(found) == faulty
    if faulty:
        assert __file__.endswith(found[0].place.file)


def test_penalty_of_the_weights_may_stand_beside_a_sum(examine, net, data):
    class Penalised(net):
        def loss(self, batch):
            inputs, targets = batch
            weights = torch.cat([weight.flatten() for weight in self.parameters()])
            return functional.cross_entropy(self(inputs), targets, reduction="sum") + weights.abs().sum()

    verdict = examine("trace", Penalised(), data())
    assert "network/sum-beside-mean" not in {each.rule for each in verdict.findings}
