import pytest
import torch
from torch import nn

from {{ cookiecutter.package }}.models import criterion_arguments as module
from {{ cookiecutter.package }}.models.criterion_arguments import criterion_arguments

LISTED = {
    criterion
    for classes in (module.TAKES_LOG_PROBABILITIES, module.TAKES_PROBABILITIES, module.TAKES_ONE_HOT)
    for criterion in classes
}
# Logits and class indices as they are.
TAKES_THEM_AS_THEY_ARE = {nn.CrossEntropyLoss, nn.MultiMarginLoss}

LABELS = torch.tensor([0, 2, 1, 2])


@pytest.fixture
def logits() -> torch.Tensor:
    return torch.randn(4, 3, generator=torch.Generator().manual_seed(0)).requires_grad_()


@pytest.mark.filterwarnings("ignore:reduction. 'mean' divides")
@pytest.mark.parametrize("criterion", sorted(LISTED | TAKES_THEM_AS_THEY_ARE, key=lambda listed: listed.__name__))
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


def test_subclass_of_a_criterion_takes_what_its_parent_takes(logits):
    class Weighted(nn.MSELoss):
        pass

    assert Weighted()(*criterion_arguments(Weighted(), logits, LABELS)).isfinite()
