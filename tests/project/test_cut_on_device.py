"""Batches that are cut where the network trains. A GPU is played by torch's device meta: shapes and no values."""

from types import SimpleNamespace

import pytest
import torch
from hydra.utils import instantiate
from pytorch_lightning import Trainer
from training_config.errors import ConfigError
from training_runs.start.feasibility import check_job

THERE = torch.device("meta")


def training_there(compose, *overrides: str):
    """The sample, whose Trainer has a device that is not the CPU."""
    datamodule = instantiate(compose(*overrides).data)
    datamodule.setup("fit")
    strategy = SimpleNamespace(root_device=THERE)
    loop = Trainer(logger=False).fit_loop
    datamodule.trainer = SimpleNamespace(world_size=1, global_rank=0, strategy=strategy, fit_loop=loop)
    return datamodule


def test_batches_are_cut_on_the_device_and_the_dataset_stays(compose):
    datamodule = training_there(compose, "data.device=gpu")
    for loader in (datamodule.train_dataloader(), datamodule.val_dataloader()):
        images, labels = next(iter(loader))
        assert images.device == labels.device == THERE
        assert images.shape == (64, 1, 28, 28)
    assert datamodule.train_set.images.device == datamodule.train_set.labels.device == torch.device("cpu")


def test_order_does_not_depend_on_where_batches_are_cut(compose):
    here, there = (training_there(compose, f"data.device={where}").train_dataloader() for where in ("cpu", "gpu"))
    assert list(here.sampler) == list(there.sampler)


def test_device_that_is_none_is_refused_before_the_run(compose):
    with pytest.raises(ConfigError, match=r"data\.device=tpu"):
        check_job(compose("data.device=tpu"), trains=False)
