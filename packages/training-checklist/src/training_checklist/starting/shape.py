"""What items ask of a run: of its config as far as the project has such a key, and of every Trainer that is built."""

from collections.abc import Collection, Mapping
from importlib.resources import files
from typing import Any

from omegaconf import DictConfig, OmegaConf, open_dict, read_write
from training_config.overrides import given, key_of

from training_checklist.group import OWN

# Of an item's arguments of the Trainer, those that only say how much is done; the one process that it wants, besides.
LIMITS = ("max_epochs", "limit_", "val_check_interval", "check_val_every_n_epoch", "devices", "strategy")
# As fast_dev_run has them, but for two of training: some refuse one, which for loaders without an end is what they take
# for Lightning's default of 1.0.
FAST = {"max_epochs": 1, "limit_train_batches": 2, "limit_val_batches": 1, "limit_test_batches": 1}
FAST |= {"limit_predict_batches": 1, "val_check_interval": 1.0, "check_val_every_n_epoch": 1}
# As Lightning has a Trainer with barebones=True, but for the checks of its arguments.
FEATURES = ("logger", "enable_checkpointing", "enable_progress_bar", "enable_model_summary")
WITHOUT_FEATURES = {"barebones": False, "num_sanity_val_steps": 0, **dict.fromkeys(FEATURES, False)}
HELD_OUT = ("limit_val_batches", "limit_test_batches", "limit_predict_batches")
SWITCHES = ("test", "figures")  # what follows training in a project that has such a key
_asked: dict[str, bool] = {}  # what keys of the present job they were, before `shape` has switched them off


def packaged(item: str) -> DictConfig | None:
    """Return the config of an item of this package, None of another one."""
    path = files("training_checklist.conf") / OWN / f"{item}.yaml"
    return OmegaConf.load(path) if path.is_file() else None


def shape(config: DictConfig, items: Collection[str]) -> None:
    """Let a job's config do without what its items do not ask for."""
    _asked.clear()
    with read_write(config), open_dict(config):
        for name in switched_off(config, items):
            _asked[name] = config[name]
            config[name] = False


def unshaped(config: DictConfig) -> DictConfig:
    """Return a job's config as it was before `shape`."""
    with read_write(whole := config.copy()), open_dict(whole):
        whole.update(_asked)
    return whole


def switched_off(config: DictConfig, items: Collection[str]) -> list[str]:
    """Return the keys of the project by which items leave out what follows training."""
    asked = [each for item in items if (each := packaged(item)) is not None]
    own = [name for name in SWITCHES if isinstance(config.get(name), bool)]
    return [name for name in own if any(each.get(name) is False for each in asked)]


def asked_of_trainers(config: DictConfig, items: Collection[str]) -> tuple[dict[str, DictConfig], dict[str, Any]]:
    """Return the experiments of a job by their keys in `callbacks`, and the arguments that its Trainers must have.

    What the command line says of the Trainer comes before an item's own, but for an interval of validation in batches.
    """
    keys = [key_of(text) for text in given(config, "task")]
    typed = {key.removeprefix("trainer.") for key in keys if key.startswith("trainer.")}
    if isinstance(OmegaConf.select(config, "trainer.val_check_interval", default=None), int):
        typed.discard("val_check_interval")  # of batches, of which an item's run may have fewer
    own = config.get("callbacks")
    own = own if isinstance(own, DictConfig) else {}
    parts = {key: part for key, part in own.items() if str(key).startswith(f"{OWN}_")}
    arguments: dict[str, Any] = {}
    for item in items:
        content = packaged(item)
        if content is None:
            continue
        content._set_parent(config)  # ${checks.overfit.max_steps} is the project's
        parts = {**(content.get("callbacks") or {}), **parts}
        arguments |= {str(name): value for name, value in (content.get("trainer") or {}).items() if name not in typed}
    if arguments and "profiler" not in typed:
        arguments["profiler"] = (
            None  # it would record what the items do, too, and keep all of it in memory and in files
        )
    return parts, arguments


def agreed(asked: Mapping[str, Any], own: Mapping[str, Any]) -> dict[str, Any]:
    """Return items' arguments of the Trainer with no more batches of validation, or test, than the project's own have.

    A bare Trainer refuses some of them: what else it leaves out is spelt then.
    """
    bare = WITHOUT_FEATURES if asked and own.get("barebones") else {}
    fewer = {
        name: least
        for name, limit in asked.items()
        if name in HELD_OUT and (least := own.get(name)) is not None
        if least == 0 or (isinstance(least, int) and least < limit)
    }
    return {**bare, **asked, **fewer}


def limits(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return what remains of items' arguments of the Trainer in a run without the items."""
    kept = {name: value for name, value in arguments.items() if name.startswith(LIMITS)}
    return {**FAST, **kept} if arguments.get("fast_dev_run") else kept
