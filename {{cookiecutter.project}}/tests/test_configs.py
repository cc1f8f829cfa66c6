"""Every file in conf/ composes, fits the code that it configures, and says how to use it; found on disk, not listed."""

import re
import shlex
import sys
import tomllib
from functools import cache
from importlib.metadata import distributions
from pathlib import Path

import pytest
import torch
import yaml
from hydra import compose, initialize_config_dir
from hydra._internal import config_loader_impl
from hydra._internal.core_plugins.basic_sweeper import BasicSweeper
from hydra._internal.defaults_list import create_defaults_list
from hydra._internal.utils import get_args_parser
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.errors import InstantiationException
from hydra.utils import instantiate
from omegaconf import DictConfig
from pytorch_lightning import LightningDataModule, LightningModule, Trainer
from pytorch_lightning.accelerators import CUDAAccelerator, MPSAccelerator
from torch import nn
from torch.optim import Optimizer

from {{ cookiecutter.package }}.debug.config.code_reads import read_code
from {{ cookiecutter.package }}.errors import ConfigError
from {{ cookiecutter.package }}.models.schedules import build_schedule
from {{ cookiecutter.package }}.training.command_line import missing_plugins
from {{ cookiecutter.package }}.training.config_check import check_config, missing

PROJECT = Path(__file__).parents[1]
CONF = PROJECT / "conf"
FILES = sorted(path.relative_to(CONF).with_suffix("").as_posix() for path in CONF.rglob("*.yaml"))
TEXTS = {name: (CONF / f"{name}.yaml").read_text(encoding="utf-8") for name in FILES}
OPTIONS = [name for name in FILES if "/" in name]

# Outside an application nothing answers for `hydra:`, in which these lie.
OUTSIDE = ["output_dir=nowhere", "data_dir=nowhere"]

# A group outside the defaults list of train.yaml is added to it: +experiment=baseline.
ENTRIES = [entry for entry in yaml.safe_load(TEXTS["train"])["defaults"] if isinstance(entry, dict)]
DEFAULTS = {key.removeprefix("optional ") for entry in ENTRIES for key in entry}

# What an option leaves to others to fill in is `???`.
ABSTRACT = [name for name in OPTIONS if "???" in TEXTS[name]]


def found(pattern: str) -> dict[str, str]:
    """What `pattern` finds in the files where it finds something."""
    return {name: match[1] for name, text in TEXTS.items() if (match := re.search(pattern, text))}


# An option that needs packages says which extra of pyproject.toml brings them.
NEEDS = found(r"needs pip install -e '\.\[(\w+)\]'")
PLUGINS = found(r"override /(hydra/\w+: \w+)")
EXTRAS = tomllib.loads((PROJECT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]


def is_installed(extra: str) -> bool:
    installed = {re.sub(r"[-_.]+", "-", found.name).lower() for found in distributions()}
    return all(re.match(r"[\w-]+", requirement)[0] in installed for requirement in EXTRAS[extra])


# Nothing can be composed, or bound to its target, of a package that is not there.
OUT_OF_REACH = [name for name in NEEDS if name in OPTIONS and not is_installed(NEEDS[name])]
FILES_IN_REACH = [name for name in FILES if name not in OUT_OF_REACH]
CONCRETE = [name for name in OPTIONS if name not in ABSTRACT + OUT_OF_REACH]


def options(group: str) -> list[str]:
    return [name.removeprefix(f"{group}/") for name in CONCRETE if name.startswith(f"{group}/")]


# Composed once for all tests of an option; nothing writes to the directory.
@cache
def composed(name: str) -> DictConfig:
    """conf/train.yaml with the file `group/option` chosen, outside an application."""
    group, _, option = name.rpartition("/")
    chosen = f"{'' if group in DEFAULTS else '+'}{group}={option}"
    with initialize_config_dir(str(CONF), version_base="1.3"):
        return compose("train", overrides=["data=mnist_sample", *OUTSIDE, chosen])


@pytest.mark.parametrize("name", CONCRETE)
def test_option_composes_and_fits_its_targets(name):
    check_config(composed(name), trains=False)  # a machine without GPU has options for one too


@pytest.mark.parametrize("name", ABSTRACT)
def test_option_that_leaves_a_value_open_is_refused_by_its_key(name):
    cfg = composed(name)
    with pytest.raises(ConfigError) as refused:
        check_config(cfg)
    assert [line.partition("=")[0] for line in str(refused.value).splitlines()] == missing(cfg)


@pytest.mark.parametrize("option", [option for option in options("debug") if "/" not in option])
def test_debug_item_draws_no_figures(option):
    assert not composed(f"debug/{option}").figures


def test_code_reads_the_config_by_name():
    # +debug=config can name no key that nothing reads where code goes through all of them.
    assert not read_code([PROJECT]).loops


def test_evaluation_config_composes():
    with initialize_config_dir(str(CONF), version_base="1.3"):
        check_config(compose("eval"))


@pytest.mark.parametrize("name", FILES)
def test_file_opens_with_its_purpose_and_a_command(name):
    purpose, command = opening(name)
    assert re.fullmatch(r"# [A-Z0-9].*\.", purpose)
    assert re.match(r"# python \w+\.py\b", command)


@pytest.mark.parametrize("name", FILES_IN_REACH)
def test_command_in_the_file_composes_that_file(name, monkeypatch):
    loaded = []

    def spy(*arguments, **options):
        found = create_defaults_list(*arguments, **options)
        loaded.append([default.config_path for default in found.defaults])
        return found

    monkeypatch.setattr(config_loader_impl, "create_defaults_list", spy)
    _, script, *arguments = shlex.split(opening(name)[1].removeprefix("# "))
    assert (PROJECT / script).is_file()
    given = get_args_parser().parse_args(arguments).overrides
    with initialize_config_dir(str(CONF), version_base="1.3"):
        for job in jobs(given):
            compose(Path(script).stem, overrides=([] if script == "eval.py" else OUTSIDE) + job)
    assert all(name in files for files in loaded)


def opening(name: str) -> list[str]:
    """The first two lines, after the one that says where the file's keys go."""
    return [line for line in TEXTS[name].splitlines() if not line.startswith("# @package")][:2]


def jobs(arguments: list[str]) -> list[list[str]]:
    """The overrides of every job of a sweep; of the only job where nothing is swept."""
    [batch] = BasicSweeper.split_arguments(OverridesParser.create().parse_overrides(arguments), max_batch_size=None)
    return batch


@pytest.mark.parametrize("option", options("data"))
def test_data_is_built_without_data(option):
    assert isinstance(instantiate(composed(f"data/{option}").data), LightningDataModule)


@pytest.mark.parametrize("option", options("model"))
def test_model_maps_images_to_logits(option):
    cfg = composed(f"model/{option}")
    model = instantiate(cfg.model)
    assert isinstance(model, LightningModule)
    assert model(torch.rand(3, *cfg.data.image_shape)).shape == (3, cfg.data.num_classes)


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


@pytest.mark.parametrize("option", [option for option in options("logger") if f"logger/{option}" in NEEDS])
def test_logger_without_its_package_is_refused_with_the_way_to_install_it(option, monkeypatch):
    monkeypatch.setitem(sys.modules, option, None)  # as if it were not installed
    with pytest.raises(ConfigError, match=rf"logger\.{option}.*pip install -e '\.\[{option}\]'"):
        check_config(composed(f"logger/{option}"))


@pytest.mark.parametrize("name", [name for name in NEEDS if name in PLUGINS])
def test_plugin_that_is_not_installed_is_named_with_the_way_to_install_it(name):
    plugin = PLUGINS[name].replace(": ", "/")
    [line] = missing_plugins(f"In '{name}': Could not find '{plugin}'")
    assert line == f"{plugin} is not installed; install it with: pip install -e '.[{NEEDS[name]}]'"
