"""The loss of an epoch is the criterion over the whole epoch at once, whatever the size of the batches."""

import pytest
import torch
from torch import nn

WEIGHT = torch.tensor([2.0, 1.0, 0.5])
CRITERIA = [
    nn.CrossEntropyLoss(),
    nn.CrossEntropyLoss(weight=WEIGHT),
    nn.CrossEntropyLoss(weight=WEIGHT, label_smoothing=0.1, ignore_index=1),
    nn.CrossEntropyLoss(ignore_index=2),
    nn.CrossEntropyLoss(weight=WEIGHT, ignore_index=-100, reduction="sum"),
    nn.NLLLoss(weight=WEIGHT, ignore_index=0),
    nn.MultiMarginLoss(weight=WEIGHT),
    nn.MSELoss(),
    nn.MSELoss(reduction="sum"),
    nn.KLDivLoss(reduction="batchmean"),
    nn.BCEWithLogitsLoss(pos_weight=WEIGHT),
]


@pytest.fixture
def epoch(root) -> tuple[torch.Tensor, torch.Tensor]:
    """Logits and labels of 133 samples of three classes."""
    generator = torch.Generator().manual_seed(0)
    return torch.randn(133, 3, generator=generator), torch.randint(3, (133,), generator=generator)


def updated(epoch, size: int, criterion: nn.Module):
    from digit_classifier.models.criterion_arguments import criterion_arguments
    from digit_classifier.models.metrics import LossAndAccuracy

    metric = LossAndAccuracy()
    for logits, labels in zip(*(values.split(size) for values in epoch), strict=True):
        metric.update(criterion(*criterion_arguments(criterion, logits, labels)), logits, labels, criterion)
    return metric


@pytest.mark.parametrize("size", [1, 32, 133])
@pytest.mark.parametrize("criterion", CRITERIA, ids=str)
def test_loss_of_an_epoch_is_the_criterion_over_all_of_it_whatever_the_batches(epoch, criterion, size):
    from digit_classifier.models.criterion_arguments import criterion_arguments

    whole = criterion(*criterion_arguments(criterion, *epoch))
    assert updated(epoch, size, criterion).compute()["loss"].item() == pytest.approx(whole.item(), rel=1e-6)


@pytest.mark.parametrize("ignored", [-100, 1])
def test_ignored_labels_of_images_count_neither_for_the_loss_nor_for_the_accuracy(root, ignored):
    logits, labels = torch.randn(6, 3, 4, 4), torch.randint(3, (6, 4, 4))  # a class for each pixel
    labels[:3, :2] = ignored
    labels[5] = ignored
    criterion = nn.CrossEntropyLoss(ignore_index=ignored)
    values = updated((logits, labels), 2, criterion).compute()
    kept = labels != ignored
    assert values["loss"].item() == pytest.approx(criterion(logits, labels).item(), rel=1e-6)
    assert values["accuracy"].item() == pytest.approx((logits.argmax(1) == labels)[kept].float().mean().item())


def test_own_criterion_says_how_its_mean_weighs_the_labels(epoch):
    from digit_classifier.models.criterion_arguments import Takes

    class Odd(nn.Module):
        """Counts a label as often as its class says."""

        takes = Takes(weights=lambda criterion, labels: labels.float())

        def forward(self, logits, labels):
            return (logits.logsumexp(1) * labels).sum() / labels.sum()

    assert updated(epoch, 32, Odd()).compute()["loss"].item() == pytest.approx(Odd()(*epoch).item(), rel=1e-6)


def test_loss_that_is_not_finite_shows_in_the_epoch(epoch):
    epoch[0][0] = torch.nan
    assert updated(epoch, 32, nn.CrossEntropyLoss()).compute()["loss"].isnan()
