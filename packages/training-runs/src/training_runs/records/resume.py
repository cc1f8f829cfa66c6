"""Going on with a run that stopped: in its own directory, with its own saved config and what is overridden now."""

import shlex
from collections.abc import Mapping, Sequence
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
from training_runs.records.runs import (
    RECORD,
    check_trains,
    find_run,
    holds_run,
    misfit,
    read_checkpoint,
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
UNREAD = ("allow", "print_config")  # keys that change nothing of a run
KEPT = ("optimizer", "scheduler.scheduler")  # what a checkpoint has the state of: other values would have no effect


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
    if given is None or any(each.key_or_group == "hydra.run.dir" for each in overrides):  # a rank's, complete
        return arguments
    name = str(given.value())
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
    return f"++{argument}" if lookup(saved, key)[0] else argument


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
    folder = Path(str(cfg.output_dir))
    if not (folder / RECORD).is_file() or (ranks.launched_here() and cfg.resume is None):
        return None
    record = read_record(folder)
    if cfg.resume is not None:
        if any(key_of(text) == "debug" for text in record["overrides"]):
            raise ConfigError(f"resume={cfg.resume} is a run of a debug item, which gives its verdict in one go")
        return record
    return record if goes_on(folder, record) else None


def is_finished(cfg: DictConfig) -> bool:
    """Whether an earlier start has come to the end of this run, and no override asks for another training now."""
    former = former_start(cfg)
    return former is not None and former["state"] == "finished" and (cfg.resume is None or not asks_for_more(cfg))


def asks_for_more(cfg: DictConfig) -> bool:
    """Whether an override of this start gives a key another value than the saved config has."""
    saved, composed = (OmegaConf.to_container(each, resolve=False) for each in (read_config(Path(cfg.output_dir)), cfg))
    for override in parse(given_now()):
        found, value = lookup(composed, override.key_or_group)
        if override.key_or_group not in UNREAD and (not found or lookup(saved, override.key_or_group) != (True, value)):
            return True
    return False


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
    run = Path(str(cfg.output_dir))  # a value that is no directory's is refused with all other mistakes
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
    kept = {key: kept_values(saved, key) for key in KEPT}
    before = read_overrides(run)
    composed = OmegaConf.to_container(cfg, resolve=False)
    for override in parse(given_now()):
        key = override.key_or_group
        if override.is_delete():
            parent = OmegaConf.select(saved, key.rpartition(".")[0]) if "." in key else saved
            parent.pop(key.rpartition(".")[2], None)
            continue
        found, value = lookup(composed, key)
        if not found and override.input_line in before:
            continue
        if not found:
            raise ConfigError(
                f"{override.input_line} changes the config in many places and cannot be added to one that is saved; "
                f"override single values, or leave {KEY} out and start a new run"
            )
        OmegaConf.update(saved, key, value, merge=False, force_add=True)
        changed = next((part for part in KEPT if kept_values(saved, part) != kept[part]), None)
        if changed is not None and checkpoint(run) is not None:
            raise ConfigError(
                f"{override.input_line.lstrip('+')} cannot change a run that goes on: its checkpoint holds the state "
                f"of {changed}; leave it out, or leave {KEY} out and start a new run"
            )
    with open_dict(saved):
        saved[KEY] = cfg.output_dir
    return saved


def kept_values(cfg: DictConfig, key: str) -> Any:
    """Return what `cfg` has under `key`, as plain values that are not resolved."""
    part = OmegaConf.select(cfg, key)
    return OmegaConf.to_container(part, resolve=False) if OmegaConf.is_config(part) else part


def lookup(container: dict[str, Any], key: str) -> tuple[bool, Any]:
    value: Any = container
    for part in key.replace("/", ".").split("."):
        if not isinstance(value, dict) or part not in value:
            return False, None
        value = value[part]
    return True, value


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
    """Return the checkpoint that was written last for this purpose, or None where there is none yet.

    `hpc_ckpt_*` is what Lightning saves when SLURM takes the job away.
    """
    files = [*run.glob("checkpoints/last.ckpt"), *run.glob("hpc_ckpt_*.ckpt")]
    return max(files, key=lambda path: path.stat().st_mtime_ns, default=None)


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
    """Refuse a network that the weights of a checkpoint do not fit, and an override that they would undo.

    One that builds its layers or changes checkpoints in Lightning's hooks is left to Lightning's own words.

    Raises:
        ConfigError: it names the first weight that does not fit, or the override.
    """
    from pytorch_lightning.utilities.model_helpers import is_overridden

    hooks = ("configure_model", "on_load_checkpoint")
    if path.is_dir() or not pl_module.strict_loading or any(is_overridden(hook, pl_module) for hook in hooks):
        return
    try:
        weights = read_checkpoint(path)["state_dict"]
    except ConfigError as error:
        reason = str(error).removeprefix("ckpt=").partition(";")[0]
        raise ConfigError(f"{reason}; copy it here anew, or leave {KEY} out and start a new run") from error
    found = misfit(pl_module.state_dict(), weights)
    if found is not None:
        name, here, there = found
        raise ConfigError(
            f"{path} belongs to another network: {name} is {there} in it and {here} in this one; leave out what "
            f"changes the network, or leave {KEY} out and start a new run"
        )
    lost = without_effect(pl_module, weights, given_now())
    if lost is not None:
        override, name = lost
        raise ConfigError(
            f"{override.lstrip('+')} cannot change a run that goes on: its checkpoint holds "
            f"{name}={weights[name].tolist()}; leave it out, or leave {KEY} out and start a new run"
        )


def without_effect(
    pl_module: "LightningModule", weights: Mapping[str, Any], overrides: Sequence[str]
) -> tuple[str, str] | None:
    """Return an override, and the buffer that it has set and that the weights of a checkpoint will set back, or None.

    Such as the class weights of a criterion: torch keeps an argument under its name, and its value among the weights.
    """
    for name, buffer in pl_module.named_buffers():
        named = [text for text in overrides if key_of(text).rpartition(".")[2] == name.rpartition(".")[2]]
        if named and name in weights and not buffer.cpu().equal(weights[name].cpu()):
            return named[-1], name
    return None


def way_on(run: Path, state: str) -> str:
    """Return the line in which a run that stopped says how it goes on."""
    if checkpoint(run) is None:
        return f"{state} before there was a checkpoint to go on from"
    return f"{state}; goes on with: {shlex.join(['python', script(), f'{KEY}={shortest(run)}'])}"
