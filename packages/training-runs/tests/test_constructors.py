"""A class of a project that forgets the constructor of the class that it builds on is told so, in one line."""

import pytest
from hydra.utils import instantiate
from omegaconf import OmegaConf
from pytorch_lightning import LightningDataModule, LightningModule, Trainer
from pytorch_lightning.loggers import CSVLogger
from torch import nn
from training_config.errors import ConfigError
from training_runs.start.refusals import one_line


class WithLayers(LightningModule):
    def __init__(self):
        self.layer = nn.Linear(2, 1)


class Plain(LightningModule):
    def __init__(self):
        self.width = 3


class Data(LightningDataModule):
    def __init__(self):
        self.batch_size = 4

    def train_dataloader(self):
        return [1] * self.batch_size


class Whole(LightningModule):
    def training_step(self, batch, batch_idx):
        return self.widht

    def configure_optimizers(self):
        return None


def built(name):
    return instantiate({"_target_": f"{__name__}.{name}"})


@pytest.fixture
def trainer(tmp_path):
    quiet = dict.fromkeys(("enable_checkpointing", "enable_progress_bar", "enable_model_summary"), False)
    return Trainer(accelerator="cpu", max_steps=1, logger=CSVLogger(tmp_path), default_root_dir=tmp_path, **quiet)


@pytest.mark.parametrize(
    ("module", "data"), [("WithLayers", None), ("Plain", None), ("Whole", "Data")], ids=["layers", "plain", "data"]
)
def test_missing_call_of_the_base_constructor_is_named_in_one_line(trainer, module, data):
    with pytest.raises(ConfigError) as refused, one_line(OmegaConf.create()):
        trainer.fit(built(module), datamodule=None if data is None else built(data))
    line = str(refused.value)
    assert line.startswith(f"{__name__}.{data or module}.__init__ must call super().__init__() before anything else; ")
    assert "\n" not in line


def test_other_attribute_that_is_missing_keeps_its_traceback(trainer):
    with pytest.raises(AttributeError, match="widht"), one_line(OmegaConf.create()):
        trainer.fit(built("Whole"), [1])
