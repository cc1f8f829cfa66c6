"""Every key of the default config: a run that goes on is refused another value, or becomes what it had been with it."""

from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
import torch
from in_project import own_conftest
from omegaconf import OmegaConf
from training_config.errors import ConfigError
from training_runs.records import changes, resume
from training_runs.records.runs import read_record

DEFAULT = (
    "callbacks=[checkpoint,early_stopping,epoch_lines,figures,lr_monitor,model_summary,progress_bar,step_monitor]",
    "logger=[tensorboard,csv]",
)
# What may be another value, as the pages on resuming have it.
MAY = (
    *("allow", "print_config", "test", "figures", "no_progress_minutes", "data_dir", "trainer.max_epochs"),
    *("trainer.accelerator", "trainer.devices", "trainer.num_nodes", "trainer.log_every_n_steps"),
    *("data.num_workers", "data.device", "callbacks.last_checkpoint.every_n_train_steps"),
    *("callbacks.learning_curves", "callbacks.lr_monitor", "callbacks.model_summary"),
    *("callbacks.progress_bar", "callbacks.step_monitor", "logger", "checks"),
)
# Values of these keys that can be tried for real, where no rule below finds one.
TRIED = {
    "allow": "[torch.nn]",
    "no_progress_minutes": "5",
    "trainer.max_epochs": "2",
    "trainer.accelerator": "auto",
    "trainer.log_every_n_steps": "1",
    "data.num_workers": "1",
    "data.device": "cpu",
    "callbacks.last_checkpoint.every_n_train_steps": "1",
}
# They name machines or classes that this one has not, and paths outside of the run.
NOT_TRIED = ("trainer.devices", "trainer.num_nodes", "data_dir", "checks.", "._target_", "folder", "_dir", ".mode")


def other(key: str, value: Any) -> str:
    """Another value for a key, as an override has it."""
    if key in TRIED:
        return TRIED[key]
    if isinstance(value, bool):
        return str(not value).lower()
    if isinstance(value, (int, float)):
        return str(value + 1)
    if isinstance(value, list):
        return "[1]"
    return "another" if value is not None else "7"


def may(key: str) -> bool:
    return any(key == each or key.startswith(f"{each}.") for each in MAY)


@pytest.fixture
def keys(compose) -> dict[str, Any]:
    return changes.values(compose(*DEFAULT))


def test_every_key_of_the_default_config_is_refused_or_among_those_that_may_change(compose, keys):
    saved = compose(*DEFAULT)
    wrong = []
    for key, value in keys.items():
        [override] = resume.parse([f"++{key}={other(key, value)}"])
        now, composed = deepcopy(saved), deepcopy(saved)
        OmegaConf.update(composed, key, override.value(), merge=False, force_add=True)
        differing = changes.apply(override, now, OmegaConf.to_container(composed), ())
        try:
            changes.check_changes(override, differing, saved, now)
            refused = False
        except ConfigError:
            refused = True
        wrong += [key] if refused == may(key) and key not in ("resume", "rerun") else []
    assert wrong == []


def ended_as(run: Path) -> dict[str, Any]:
    checkpoint = torch.load(run / "checkpoints" / "last.ckpt", weights_only=True)
    weights = {name: value.numpy().tobytes() for name, value in checkpoint["state_dict"].items()}
    return weights | {"metrics": read_record(run)["metrics"], "step": checkpoint["global_step"]}


def content(run: Path) -> dict[str, bytes]:
    return {path.relative_to(run).as_posix(): path.read_bytes() for path in run.rglob("*") if path.is_file()}


def tried(key: str) -> bool:
    return key in TRIED or not any(part in key for part in NOT_TRIED)


@pytest.mark.parametrize(
    "override",
    [
        "trainer.max_epochs=2",
        *(
            pytest.param(each, marks=pytest.mark.slow)
            for each in ("test=true", "data.num_workers=1", "trainer.log_every_n_steps=1", "figures=true")
        ),
    ],
)
def test_run_that_goes_on_otherwise_ends_as_one_that_was_asked_so_from_the_start(override, train_in, script, tmp_path):
    small = (*own_conftest().TINY, *DEFAULT, "test=false", "figures=false")
    run, whole = (train_in(tmp_path, *small, *more) for more in ((), (override,)))
    script("train.py", f"resume='{run}'", override)
    assert ended_as(run) == ended_as(whole)


@pytest.mark.slow
def test_no_key_of_the_default_config_harms_a_run(keys, train_in, script, tmp_path, capsys):
    small = (*own_conftest().TINY, *DEFAULT, "test=false", "figures=false")
    run = train_in(tmp_path, *small)
    harmed = []
    for key, value in keys.items():
        override = f"++{key}={other(key, value)}"
        if not tried(key) or key in ("resume", "rerun"):
            continue
        before = content(run)
        try:
            script("train.py", f"resume='{run}'", override)
        except SystemExit:
            harmed += [] if content(run) == before else [f"{key}: changed, and was refused"]
            continue
        if key not in ("trainer.max_epochs",) and "print_config" not in key:
            whole = train_in(tmp_path, *small, override)
            harmed += [] if ended_as(run) == ended_as(whole) else [f"{key}: another result"]
        if not may(key):
            harmed.append(f"{key}: accepted")
        run = train_in(tmp_path, *small)
    assert harmed == []
