import pytest
import torch
from torch import nn

from digit_classifier.models.criterion_arguments import TAKES, Takes, criterion_arguments

# Logits and class indices as they are, and every class that takes something else.
CRITERIA = {nn.MultiMarginLoss, *TAKES}

LABELS = torch.tensor([0, 2, 1, 2])


@pytest.fixture
def logits() -> torch.Tensor:
    return torch.randn(4, 3, generator=torch.Generator().manual_seed(0)).requires_grad_()


@pytest.mark.filterwarnings("ignore:reduction. 'mean' divides")
@pytest.mark.parametrize("criterion", sorted(CRITERIA, key=lambda listed: listed.__name__))
def test_loss_and_gradient_are_finite(logits, criterion):
    loss = criterion()(*criterion_arguments(criterion(), logits, LABELS))
    loss.backward()
    assert loss.ndim == 0
    assert loss.isfinite()
    assert logits.grad.isfinite().all()
    assert logits.grad.any()


def test_negative_log_likelihood_is_cross_entropy(logits):
    cross_entropy = nn.CrossEntropyLoss()(*criterion_arguments(nn.CrossEntropyLoss(), logits, LABELS))
    likelihood = nn.NLLLoss()(*criterion_arguments(nn.NLLLoss(), logits, LABELS))
    assert torch.equal(cross_entropy, likelihood)


def test_log_softmax_in_the_network_changes_nothing_for_negative_log_likelihood(logits):
    scores, _ = criterion_arguments(nn.NLLLoss(), logits, LABELS)
    twice, _ = criterion_arguments(nn.NLLLoss(), scores, LABELS)
    torch.testing.assert_close(twice, scores)


def test_squared_error_compares_logits_with_one_hot_targets(logits):
    scores, targets = criterion_arguments(nn.MSELoss(), logits, LABELS)
    assert torch.equal(scores, logits)
    assert targets.tolist() == [[1, 0, 0], [0, 0, 1], [0, 1, 0], [0, 0, 1]]
    assert targets.dtype == logits.dtype


def test_one_hot_targets_of_images_have_their_classes_where_logits_do(logits):
    maps, labels = torch.randn(2, 3, 4, 5), torch.randint(3, (2, 4, 5))
    _, targets = criterion_arguments(nn.MSELoss(), maps, labels)
    assert targets.shape == maps.shape
    assert torch.equal(targets.argmax(dim=1), labels)


class Ordinal(nn.MSELoss):
    """A forward of its own, which takes class indices."""

    def forward(self, input, target):
        return super().forward(input.softmax(dim=1) @ torch.arange(3.0), target.float())


def test_subclass_takes_what_its_parent_takes_unless_its_forward_is_its_own(logits, monkeypatch):
    weighted = type("Weighted", (nn.MSELoss,), {})()
    assert criterion_arguments(weighted, logits, LABELS)[1].shape == logits.shape
    assert torch.equal(criterion_arguments(Ordinal(), logits, LABELS)[1], LABELS)
    monkeypatch.setitem(TAKES, Ordinal, Takes("probabilities", "one_hot"))
    assert criterion_arguments(Ordinal(), logits, LABELS)[1].shape == logits.shape
