"""Every file in conf/ composes and fits the code that it configures; found on disk, not listed."""

import re
import tomllib
from functools import cache
from importlib.metadata import distributions
from pathlib import Path

import pytest
import torch
import yaml
from hydra import compose, initialize_config_dir
from hydra.errors import InstantiationException
from omegaconf import DictConfig, OmegaConf
from pytorch_lightning import LightningDataModule, LightningModule, Trainer
from pytorch_lightning.accelerators import CUDAAccelerator, MPSAccelerator
from torch import nn
from torch.optim import Optimizer
from training_config.building import instantiate
from training_config.check import check_config, missing
from training_config.errors import ConfigError
from training_runs.schedules import build_schedule
from training_runs.start.feasibility import check_job

from digit_classifier import class_folders
from digit_classifier.models import ImageClassifier

class_folders.register()

PROJECT = Path(__file__).parents[1]
CONF = PROJECT / "conf"
TEXTS = {
    path.relative_to(CONF).with_suffix("").as_posix(): path.read_text(encoding="utf-8")
    for path in sorted(CONF.rglob("*.yaml"))
}
OPTIONS = [name for name in TEXTS if "/" in name]

# A group outside the defaults list of train.yaml is added to it: +experiment=baseline.
ENTRIES = [entry for entry in yaml.safe_load(TEXTS["train"])["defaults"] if isinstance(entry, dict)]
DEFAULTS = {key.removeprefix("optional ") for entry in ENTRIES for key in entry}

# What an option leaves to others to fill in is `???`.
ABSTRACT = [name for name in OPTIONS if "???" in TEXTS[name]]

# An option that needs packages says which extra of pyproject.toml brings them.
NEEDS = {
    name: match[1] for name, text in TEXTS.items() if (match := re.search(r"needs pip install -e '\.\[(\w+)\]'", text))
}
EXTRAS = tomllib.loads((PROJECT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]


def is_installed(extra: str) -> bool:
    installed = {re.sub(r"[-_.]+", "-", found.name).lower() for found in distributions()}
    return all(re.match(r"[\w-]+", requirement)[0] in installed for requirement in EXTRAS[extra])


# Nothing can be composed, or bound to its target, of a package that is not there.
OUT_OF_REACH = [name for name in NEEDS if not is_installed(NEEDS[name])]
CONCRETE = [name for name in OPTIONS if name not in ABSTRACT + OUT_OF_REACH]


def options(group: str) -> list[str]:
    return [name.removeprefix(f"{group}/") for name in CONCRETE if name.startswith(f"{group}/")]


# Composed once for all tests of an option; nothing writes to the directory.
@cache
def composed(name: str) -> DictConfig:
    """conf/train.yaml with the file `group/option` chosen, outside an application, where nothing answers `hydra:`."""
    group, _, option = name.rpartition("/")
    chosen = f"{'' if group in DEFAULTS else '+'}{group}={option}"
    with initialize_config_dir(str(CONF), version_base="1.3"):
        # An experiment may have data of its own.
        data = [] if group == "experiment" else ["data=mnist_sample"]
        return compose("train", overrides=[*data, "output_dir=nowhere", "data_dir=nowhere", chosen])


@pytest.mark.parametrize("name", CONCRETE)
def test_option_composes_and_fits_its_targets(name):
    if lacks_images(cfg := composed(name)):
        pytest.skip(f"data.folder={cfg.data.folder} is not on this machine")
    check_job(cfg, trains=False)  # a machine without GPU has options for one too


def lacks_images(cfg: DictConfig) -> bool:
    """Whether the classes are names of folders that are not here."""
    return "${class_names:" in str(OmegaConf.to_container(cfg)) and not Path(cfg.data.folder).exists()


@pytest.mark.parametrize("name", ABSTRACT)
def test_option_that_leaves_a_value_open_is_refused_by_its_key(name):
    cfg = composed(name)
    with pytest.raises(ConfigError) as refused:
        check_job(cfg, trains=False)
    assert sorted(line.partition("=")[0] for line in str(refused.value).splitlines()) == sorted(missing(cfg))


def test_evaluation_config_composes_and_fits():
    with initialize_config_dir(str(CONF), version_base="1.3"):
        check_config(compose("eval"))


@pytest.mark.parametrize("option", options("data"))
def test_data_is_built_without_data(option):
    assert isinstance(instantiate(composed(f"data/{option}").data), LightningDataModule)


@pytest.mark.parametrize("option", options("model"))
def test_model_takes_images_and_a_classifier_gives_logits(option):
    cfg = composed(f"model/{option}")
    model = instantiate(cfg.model)
    assert isinstance(model, LightningModule)
    # A network that is not told the shape takes colour images of any size.
    shape = (3, 64, 64) if "image_shape" not in cfg.model.get("net", {"image_shape": None}) else cfg.data.image_shape
    outputs = model(torch.rand(3, *shape))
    assert len(outputs) == 3
    assert not isinstance(model, ImageClassifier) or outputs.shape == (3, cfg.data.num_classes)


@pytest.mark.parametrize("option", options("criterion"))
def test_criterion_is_a_module(option):
    assert isinstance(instantiate(composed(f"criterion/{option}").criterion), nn.Module)


@pytest.mark.parametrize("option", options("optimizer"))
def test_optimizer_takes_the_parameters_of_a_model(option):
    cfg = composed(f"optimizer/{option}")
    assert isinstance(instantiate(cfg.optimizer)(instantiate(cfg.model).parameters()), Optimizer)


@pytest.mark.parametrize("option", [option for option in options("scheduler") if option != "none"])
def test_scheduler_schedules_the_optimizer(option):
    cfg = composed(f"scheduler/{option}")
    optimizer = instantiate(cfg.optimizer)(nn.Linear(1, 1).parameters())
    schedule = build_schedule(instantiate(cfg.scheduler.scheduler), optimizer, lambda: 100)
    assert schedule.optimizer is optimizer


@pytest.mark.parametrize("option", options("callbacks"))
def test_callback_is_built(option):
    # Together with all others, since an option may hold several.
    cfg = composed(f"callbacks/{option}")
    Trainer(accelerator="cpu", logger=False, callbacks=list(instantiate(cfg.callbacks).values()))


@pytest.mark.parametrize("option", options("trainer"))
def test_trainer_is_built_or_names_the_device_that_is_missing(option):
    cfg = composed(f"trainer/{option}")
    if is_available(cfg.trainer.accelerator):
        assert isinstance(instantiate(cfg.trainer, logger=False), Trainer)
    else:
        with pytest.raises(InstantiationException, match=f"(?i){cfg.trainer.accelerator}"):
            instantiate(cfg.trainer, logger=False)


def is_available(accelerator: str) -> bool:
    cuda, mps = CUDAAccelerator.is_available(), MPSAccelerator.is_available()
    return {"gpu": cuda or mps, "cuda": cuda, "mps": mps}.get(accelerator, True)


@pytest.mark.parametrize("option", [option for option in options("logger") if f"logger/{option}" not in NEEDS])
def test_logger_writes_below_the_run(option):
    cfg = composed(f"logger/{option}")
    [logger] = instantiate(cfg.logger).values()
    assert Path(logger.log_dir).is_relative_to(cfg.output_dir)
