"""Runs of a generated project in this process, for what training-runs promises of them."""

from pathlib import Path

import pytest
from in_project import fixtures, own_conftest

globals().update(fixtures())


@pytest.fixture
def train_as_given(train_in, tmp_path):
    """`train_as_given(*overrides)`: a run with these overrides and no others; its directory."""
    return lambda *overrides: train_in(tmp_path, *overrides)


@pytest.fixture(scope="session")
def shown(train_in, tmp_path_factory) -> Path:
    """The directory of a small run with all that people look at: TensorBoard, figures, report. Not to be changed."""
    watched = ("callbacks=[checkpoint,figures,lr_monitor,step_monitor]", "logger=[tensorboard,csv]")
    longer = ("trainer.max_epochs=2", "trainer.limit_train_batches=6", "trainer.log_every_n_steps=3")
    given = (*own_conftest().TINY, *watched, *longer, "seed=0", "optimizer.lr=0.002")
    return train_in(tmp_path_factory.mktemp("shown"), *given)
