"""What would come to light after hours is refused before the first step."""

from functools import partial
from pathlib import Path

import pytest
import torch
from omegaconf import OmegaConf
from pytorch_lightning import LightningDataModule, LightningModule, Trainer
from pytorch_lightning.callbacks import EarlyStopping
from training_config.errors import ConfigError
from training_runs.callbacks.monitor_check import MonitorCheck
from training_runs.checkpoints.checkpoint_io import AtomicCheckpointIO
from training_runs.errors import CheckpointError
from training_runs.start.refusals import one_line


class Line(LightningModule):
    def __init__(self, width: int, optimizer: object = None, folder: Path | None = None) -> None:
        super().__init__()
        self.save_hyperparameters()
        self.layer = torch.nn.Linear(width, 1)

    def training_step(self, batch, batch_idx):
        return self.layer(batch).mean()

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1)


class Validated(Line):
    def validation_step(self, batch, batch_idx):
        pass


class Logging(Line):
    def training_step(self, batch, batch_idx):
        loss = super().training_step(batch, batch_idx)
        self.log("train/loss", loss)
        return loss


class Data(LightningDataModule):
    def train_dataloader(self):
        return torch.utils.data.DataLoader(torch.zeros(4, 2))


@pytest.mark.parametrize(
    ("module", "lacking"), [(Line, "Line has no validation_step"), (Validated, "Data has no val_dataloader")]
)
def test_metric_of_validation_is_refused_where_there_is_none(module, lacking):
    check = MonitorCheck(OmegaConf.create({"monitor": "val/loss", "callbacks": {"stop": {"monitor": "${monitor}"}}}))
    with pytest.raises(ConfigError, match=f"^monitor=val/loss is a metric of validation, and {lacking}; write one, or"):
        fit(check, module(2))


def test_metric_of_training_needs_no_validation():
    fit(MonitorCheck(OmegaConf.create({"monitor": "train/loss"})), Line(2))


def test_metric_that_nobody_logs_is_named_with_its_key(tmp_path):
    cfg = OmegaConf.create({"monitor": "train/los", "callbacks": {"stop": {"monitor": "${monitor}"}}})
    stop = EarlyStopping(monitor="train/los")
    trainer = Trainer(accelerator="cpu", max_epochs=1, callbacks=[stop], default_root_dir=tmp_path)
    with pytest.raises(ConfigError, match=r"^monitor=train/los names a metric that is not logged: "), one_line(cfg):
        trainer.fit(Logging(2), datamodule=Data())


def fit(check: MonitorCheck, module: LightningModule) -> None:
    quiet = dict.fromkeys(("enable_checkpointing", "enable_progress_bar", "enable_model_summary", "logger"), False)
    Trainer(accelerator="cpu", max_steps=1, callbacks=[check], **quiet).fit(module, datamodule=Data())


def saved(module: LightningModule, folder: Path) -> None:
    trainer = Trainer(accelerator="cpu", plugins=[AtomicCheckpointIO()], logger=False, default_root_dir=folder)
    trainer.strategy.connect(module)
    trainer.save_checkpoint(folder / "first.ckpt")


def test_hyperparameter_that_no_checkpoint_gives_back_is_named_before_the_first_is_written(tmp_path):
    with pytest.raises(CheckpointError, match=r"plain values only, not functools\.partial; .*ignore="):
        saved(Line(2, partial(torch.optim.Adam, lr=0.1)), tmp_path)
    with pytest.raises(CheckpointError, match=r"plain values only, not Can't pickle .*ignore="):
        saved(Line(2, lambda parameters: None), tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_plain_hyperparameters_are_taken(tmp_path):
    saved(Line(2), tmp_path)
    saved(Line(2, [0.1, torch.float32, None, {"a": torch.zeros(2)}]), tmp_path)
