import pytest
import torch
from torch import nn
from training_config.errors import ConfigError

from digit_classifier.models.schedules import warmup_cosine


@pytest.fixture
def optimizer() -> torch.optim.Optimizer:
    return torch.optim.SGD(nn.Linear(1, 1).parameters(), lr=0.8)


def rates(optimizer, schedule, steps: int) -> list[float]:
    """The rate of every step, and of the one after the last."""
    taken = []
    for _ in range(steps + 1):
        taken.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        schedule.step()
    return taken


def test_warm_up_rises_in_equal_steps_to_the_rate_of_the_optimizer(optimizer):
    schedule = warmup_cosine(optimizer, total_steps=30, warmup_fraction=0.1, final_fraction=0.01)
    assert rates(optimizer, schedule, 3) == pytest.approx([0.2, 0.4, 0.6, 0.8])


def test_cosine_falls_from_the_peak_over_the_middle_to_the_final_share(optimizer):
    schedule = warmup_cosine(optimizer, total_steps=30, warmup_fraction=0.2, final_fraction=0.1)
    taken = rates(optimizer, schedule, 30)
    assert [taken[6], taken[18], taken[30]] == pytest.approx([0.8, (0.8 + 0.08) / 2, 0.08])
    assert taken[6:] == sorted(taken[6:], reverse=True)


def test_without_warm_up_the_first_step_has_the_full_rate(optimizer):
    schedule = warmup_cosine(optimizer, total_steps=30, warmup_fraction=0, final_fraction=0.1)
    assert rates(optimizer, schedule, 0) == [0.8]


def test_rate_stays_at_its_end_when_training_goes_on(optimizer):
    schedule = warmup_cosine(optimizer, total_steps=4, warmup_fraction=0, final_fraction=0.1)
    assert rates(optimizer, schedule, 8)[4:] == pytest.approx([0.08] * 5)


@pytest.mark.parametrize("warmup_fraction", [-0.1, 1])
def test_warm_up_outside_its_range_is_refused_by_its_key(optimizer, warmup_fraction):
    with pytest.raises(ConfigError, match=rf"warmup_fraction={warmup_fraction} must lie in \[0, 1\)"):
        warmup_cosine(optimizer, total_steps=30, warmup_fraction=warmup_fraction, final_fraction=0)
