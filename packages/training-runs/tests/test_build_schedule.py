from functools import partial

import pytest
import torch
from torch import nn
from torch.optim.lr_scheduler import OneCycleLR, ReduceLROnPlateau
from training_runs.schedules import build_schedule


@pytest.fixture
def optimizer() -> torch.optim.Optimizer:
    return torch.optim.SGD(nn.Linear(1, 1).parameters(), lr=0.8)


def test_schedule_that_asks_for_the_length_of_training_gets_it(optimizer):
    assert build_schedule(partial(OneCycleLR, max_lr=1), optimizer, lambda: 123).total_steps == 123


def test_length_given_in_the_config_stays(optimizer):
    schedule = build_schedule(partial(OneCycleLR, max_lr=1, total_steps=7), optimizer, lambda: 123)
    assert schedule.total_steps == 7


def test_length_of_training_is_not_asked_for_where_no_schedule_needs_it(optimizer):
    def unknown() -> int:
        raise AssertionError("asked")

    build_schedule(partial(ReduceLROnPlateau, patience=1), optimizer, unknown)
