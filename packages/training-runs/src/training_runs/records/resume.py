"""Going on with a run that stopped: in its own directory, with its own saved config and what is overridden now."""

import shlex
from collections.abc import Mapping
from copy import deepcopy
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hydra.core.hydra_config import HydraConfig
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Override
from hydra.errors import HydraException
from hydra.types import RunMode
from omegaconf import DictConfig, OmegaConf, open_dict
from training_config.errors import ConfigError
from training_config.overrides import key_of, quoted, task_overrides
from training_config.secret_values import secret_values, without_secrets

from training_runs.launching import ranks
from training_runs.records import changes
from training_runs.records.runs import (
    RECORD,
    check_trains,
    find_run,
    holds_run,
    misfit,
    read_config,
    read_overrides,
    read_record,
    replace_text,
    script,
    shortest,
)
from training_runs.records.trust import check_trusted

if TYPE_CHECKING:
    from pytorch_lightning import LightningModule

KEY = "resume"


def locate(arguments: list[str]) -> list[str]:
    """Return the command line `arguments` with the run that `resume=` means as Hydra's directory.

    Before Hydra starts, because Hydra makes the directory.

    Raises:
        ConfigError: there is no such run, or the command is a sweep.
    """
    try:
        overrides = parse([argument for argument in arguments if not argument.startswith("-")])
    except HydraException:  # Hydra will say so
        return arguments
    given = next((each for each in overrides if each.key_or_group == KEY and each.value() is not None), None)
    if given is None or ranks.launched_here():  # a rank's, complete
        return arguments
    name = str(given.value())
    if any(each.key_or_group == "hydra.run.dir" for each in overrides):
        raise ConfigError(f"resume={name} goes on in the run's own directory; leave hydra.run.dir=... out")
    if {"-m", "--multirun"} & set(arguments):
        raise ConfigError(
            f"resume={name} goes on with one run; "
            "a sweep goes on with its own command and hydra.sweep.dir=<its directory>"
        )
    run = find_run(name, KEY).resolve()
    folder = quoted(str(run))
    try:
        saved = OmegaConf.to_container(read_config(run), resolve=False)
    except ConfigError:  # said where the config is needed
        saved = {}
    kept = [as_addition(argument, saved) for argument in arguments if argument != given.input_line]
    return [*kept, f"{KEY}={folder}", f"hydra.run.dir={folder}", "hydra.output_subdir=null"]


def as_addition(argument: str, saved: dict[str, Any]) -> str:
    """Return an override of a key that the run's own config has, though the composed one may not, so that it parses.

    Hydra composes the defaults, in which the run may have chosen another model, and refuses keys that they lack.
    """
    key, equals, _ = argument.partition("=")
    if argument.startswith(("-", "+", "~", "hydra.")) or "." not in key or not equals:
        return argument
    return f"++{argument}" if changes.lookup(saved, key)[0] else argument


def parse(overrides: list[str]) -> list[Override]:
    return OverridesParser.create().parse_overrides(overrides)


def given_now() -> list[str]:
    """Return the overrides of this start without `resume`."""
    return [text for text in task_overrides() if key_of(text) != KEY]


def former_start(cfg: DictConfig) -> dict[str, Any] | None:
    """Return the record of what this start goes on with, or None where it begins anew.

    That is the run named by `resume`, a job of a sweep that an earlier start of the sweep has begun with the same
    overrides, unless it failed before its first checkpoint, and a run that SLURM took away and gave back.

    Raises:
        ConfigError: that run was a debug item's.
    """
    folder = directory(cfg)
    if not (folder / RECORD).is_file() or (ranks.launched_here() and cfg.resume is None):
        return None
    record = read_record(folder)
    if cfg.resume is not None:
        if is_of_debug_item(record):
            raise ConfigError(f"resume={cfg.resume} is a run of a debug item, which gives its verdict in one go")
        return record
    return record if goes_on(folder, record) else None


def is_of_debug_item(record: Mapping[str, Any]) -> bool:
    """Whether a run was started with `debug=`, from which nothing goes on."""
    return any(key_of(text) == "debug" for text in record["overrides"])


def directory(cfg: DictConfig) -> Path:
    """Return the directory of the run that this start is, or goes on with."""
    # Whether a value is a directory's at all is said with all other mistakes.
    return Path(str(cfg.output_dir if cfg.resume is None else cfg.resume))


def is_finished(cfg: DictConfig) -> bool:
    """Whether an earlier start has come to the end of this run, and no override asks for more of it now."""
    former = former_start(cfg)
    return former is not None and former["state"] == "finished" and (cfg.resume is None or not asks_for_more(cfg))


def asks_for_more(cfg: DictConfig) -> bool:
    """Whether an override of this start gives a key that is read another value than the saved config has."""
    run = directory(cfg)
    saved, before, composed = read_config(run), read_overrides(run), OmegaConf.to_container(cfg, resolve=False)
    return any(
        not set(changes.apply(override, saved, composed, before)) <= set(changes.UNREAD)
        for override in parse(given_now())
    )


def keeps_its_config(folder: Path) -> bool:
    """Whether a directory holds a run that this start goes on with, leaves alone or is refused for."""
    if holds_run(folder) or not (folder / RECORD).is_file():
        return holds_run(folder)
    try:
        return goes_on(folder, read_record(folder))
    except ConfigError:  # damaged: it is refused later
        return True


def goes_on(folder: Path, record: dict[str, Any]) -> bool:
    """Whether the job that runs now is the same again that its sweep, SLURM or torchrun has started before."""
    again = HydraConfig.get().mode == RunMode.MULTIRUN or ranks.restarted()
    worth = record["state"] != "failed" or checkpoint(folder) is not None
    return again and worth and record["overrides"] == task_overrides()


def recorded_value(cfg: DictConfig) -> float | None:
    """Say that the run is not run again; return the value of `cfg.monitor` that it came to."""
    print(f"{shortest(Path(cfg.output_dir))} is finished; it is not run again")
    return read_record(Path(cfg.output_dir))["metrics"].get(cfg.monitor)


def saved_config(cfg: DictConfig) -> DictConfig:
    """Return the config that an earlier start has saved, changed by the overrides of this one; else `cfg` itself.

    Raises:
        ConfigError: an override that belongs to no key, or changes what the checkpoint has the state of; a config that
            names what this project does not; or the directory is another run's.
    """
    run = directory(cfg)
    if former_start(cfg) is None:
        if holds_run(run) and (not ranks.launched() or (ranks.rank() == 0 and not ranks.launched_here())):
            raise ConfigError(
                f"{shortest(run)} holds another run, which would be overwritten; choose another directory"
            )
        return cfg
    if cfg.resume is not None and checkpoint(run) is None and holds_run(run):
        raise ConfigError(
            f"{shortest(run)}/checkpoints has no last.ckpt that can be read, and beginning anew would overwrite what "
            f"is there; put last.ckpt back, or leave {KEY} out and start a new run"
        )
    saved = read_config(run)
    check_trains(saved, run)
    check_trusted(saved, run, cfg)
    point, begun, changed = checkpoint(run), deepcopy(saved), set()
    before, composed = read_overrides(run), OmegaConf.to_container(cfg, resolve=False)
    for override in parse(given_now()):
        differing = changes.apply(override, saved, composed, before)
        if point is not None:
            changes.check_changes(override, differing, begun, saved)
        changed |= set(differing)
    if point is not None and not point.is_dir() and not changed.isdisjoint(changes.LASTS):
        changes.check_length(saved, changed, changes.resume_point(point))
    with open_dict(saved):
        saved[KEY] = str(run)
    return saved


def save_config(cfg: DictConfig) -> None:
    """Keep `cfg` beside the run, in the place of what Hydra has composed; not where Hydra was told to keep nothing."""
    folder = Path(cfg.output_dir) / ".hydra"
    if not folder.is_dir():
        return
    kept = without_secrets(OmegaConf.to_container(cfg, resolve=False), secret_values(cfg))
    kept |= {KEY: None, "output_dir": "${hydra:runtime.output_dir}"}
    now = given_now()
    before = read_overrides(folder.parent)
    overrides = [text for text in before if text not in now] + now
    for name, content in (("config", kept), ("overrides", overrides)):
        replace_text(folder / f"{name}.yaml", OmegaConf.to_yaml(OmegaConf.create(content)))


def checkpoint(run: Path) -> Path | None:
    """Return the checkpoint that is written for this purpose, or None where there is none yet.

    `hpc_ckpt_*` is what Lightning saves, amid a batch, when SLURM takes away a run that has no `LastCheckpoint`. They
    are numbered; clocks of machines differ.
    """
    last = run / "checkpoints" / "last.ckpt"
    if last.exists():
        return last
    numbered = (path for path in run.glob("hpc_ckpt_*.ckpt") if path.stem.rpartition("_")[2].isdecimal())
    return max(numbered, key=lambda path: int(path.stem.rpartition("_")[2]), default=None)


def check_data(before: str | None, now: str | None) -> None:
    """Refuse to go on with other data than a run was trained on.

    Raises:
        ConfigError: because of an override, or of files that are not found from where the command is given.
    """
    if None not in (before, now) and before != now:
        raise ConfigError(
            f"this run was trained on {before} and cannot go on with {now}: name its data with data_dir=..., "
            f"or leave {KEY} out and start a new run"
        )


def check_weights(pl_module: "LightningModule", path: Path) -> None:
    """Refuse a network that the weights of a checkpoint do not fit: its code has changed.

    One that builds its layers or changes checkpoints in Lightning's hooks is left to Lightning's own words.

    Raises:
        ConfigError: it names the first weight that does not fit.
    """
    from pytorch_lightning.utilities.model_helpers import is_overridden

    if path.is_dir():  # of shards
        return
    weights = changes.resume_point(path)["state_dict"]
    hooks = ("configure_model", "on_load_checkpoint")
    if not pl_module.strict_loading or any(is_overridden(hook, pl_module) for hook in hooks):
        return
    found = misfit(pl_module.state_dict(), weights)
    if found is not None:
        name, here, there = found
        raise ConfigError(
            f"{path} belongs to another network: {name} is {there} in it and {here} in this one; put its code back, "
            f"or leave {KEY} out and start a new run"
        )


def way_on(run: Path, state: str) -> str:
    """Return the line in which a run that stopped says how it goes on."""
    if checkpoint(run) is None:
        return f"{state} before there was a checkpoint to go on from"
    return f"{state}; goes on with: {shlex.join(['python', script(), f'{KEY}={shortest(run)}'])}"
