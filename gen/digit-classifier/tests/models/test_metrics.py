import pytest
import torch
from torch import nn

from digit_classifier.models.metrics import LossAndAccuracy

CRITERION = nn.CrossEntropyLoss(weight=torch.linspace(0.5, 2, 10), ignore_index=3)


@pytest.fixture
def batches() -> list[tuple[torch.Tensor, torch.Tensor]]:
    """Logits and labels of 64, 64 and 5 samples."""
    generator = torch.Generator().manual_seed(0)
    return [
        (torch.randn(size, 10, generator=generator), torch.randint(10, (size,), generator=generator))
        for size in (64, 64, 5)
    ]


def updated(metric: LossAndAccuracy, batches) -> LossAndAccuracy:
    for logits, labels in batches:
        metric.update(CRITERION(logits, labels), logits, labels, CRITERION)
    return metric


def test_uneven_batches_give_the_criterion_over_all_samples(batches):
    logits, labels = (torch.cat(parts) for parts in zip(*batches, strict=True))
    values = updated(LossAndAccuracy(), batches).compute()
    assert values["loss"].item() == pytest.approx(CRITERION(logits, labels).item(), rel=1e-6)
    assert values["accuracy"].item() == pytest.approx((logits.argmax(1) == labels)[labels != 3].float().mean())


def test_reset_forgets_the_epoch(batches):
    metric = updated(LossAndAccuracy(), batches)
    metric.reset()
    assert updated(metric, batches[:1]).compute() == updated(LossAndAccuracy(), batches[:1]).compute()


def test_metric_keeps_no_graph(batches):
    logits, labels = batches[0]
    logits.requires_grad_()
    metric = LossAndAccuracy()
    metric.update(CRITERION(logits, labels), logits, labels, CRITERION)
    assert not metric.loss_sum.requires_grad


def test_metric_is_not_in_the_checkpoint():
    assert LossAndAccuracy().state_dict() == {}
