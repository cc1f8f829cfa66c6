import os
import random

import numpy as np
import pytest
import torch
from training_runs.start.seed import seed_everything


@pytest.fixture(autouse=True)
def same_environment(monkeypatch):
    for variable in ("PL_GLOBAL_SEED", "PL_SEED_WORKERS"):
        monkeypatch.setenv(variable, "0")  # put back to what it was in the end


def draws(seed: int | None) -> list[float]:
    seed_everything(seed, deterministic=False)
    return [random.random(), np.random.random(), torch.rand(()).item()]


def test_every_generator_follows_from_the_seed():
    assert draws(0) == draws(0)
    assert all(ours != theirs for ours, theirs in zip(draws(0), draws(1), strict=True))


def test_no_seed_is_another_one_each_time_even_after_a_seed():
    draws(0)
    first = draws(None)
    draws(0)
    assert all(ours != theirs for ours, theirs in zip(first, draws(None), strict=True))


def test_no_seed_leaves_none_for_loader_workers():
    draws(0)
    assert "PL_GLOBAL_SEED" in os.environ
    draws(None)
    assert "PL_GLOBAL_SEED" not in os.environ


def test_determinism_ends_with_the_job_that_asked_for_it():
    seed_everything(0, deterministic=True)
    assert torch.backends.cudnn.deterministic
    seed_everything(0, deterministic=False)
    assert not torch.backends.cudnn.deterministic
