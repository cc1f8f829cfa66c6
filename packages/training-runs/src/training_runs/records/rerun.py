"""`rerun=<run dir>`: the same run again, and whether it comes to the same."""

import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from omegaconf import DictConfig
from training_config.errors import ConfigError
from training_config.overrides import key_of, task_overrides
from training_config.walk import flat

from training_runs.records.runs import check_trains, find_run, read_record, read_yaml, script, strict
from training_runs.records.trust import check_trusted

COMPARED = ("git", "python", "packages", "device", "world_size", "precision", "hardware", "data")


def original_config(cfg: DictConfig) -> DictConfig:
    """Return the config of the run that `cfg.rerun` names, for the directory of this one; `cfg` where it names none.

    Raises:
        ConfigError: there is no such run, it was a debug item's, other values are asked for beside, or it
            names what this project does not.
    """
    if cfg.rerun is None:
        return cfg
    run = find_run(cfg.rerun, "rerun")
    record = read_record(run)
    its_command = shlex.join(["python", script(), *record["overrides"]])
    others = [override for override in task_overrides() if key_of(override) not in ("rerun", "allow")]
    if others:
        raise ConfigError(
            f"rerun={cfg.rerun} takes every value from that run; take {' '.join(others)} away, "
            f"or start {its_command} with them"
        )
    if (run / "debug" / "report.json").is_file():
        raise ConfigError(f"rerun={cfg.rerun} was started with +debug=, whose findings need its command: {its_command}")
    original = read_yaml(run / ".hydra" / "config.yaml", DictConfig)
    check_trains(original, run)
    check_trusted(original, run, cfg)
    original.rerun, original.output_dir = str(run), cfg.output_dir  # which may be written out there
    return original


def compare(run: Path, record: Mapping[str, Any]) -> dict[str, Any]:
    """Return whether `record` has the metrics of the run in `run`, and what was not the same: {name: [then, now]}."""
    then, record = read_record(run), strict(record)
    circumstances = (dict(flat({name: values.get(name) for name in COMPARED})) for values in (then, record))
    return {
        "of": str(run),
        "agrees": bool(then["metrics"]) and then["metrics"] == record["metrics"],
        "metrics": differing(then["metrics"], record["metrics"]),
        "circumstances": differing(*circumstances),
    }


def describe(outcome: Mapping[str, Any]) -> dict[str, str]:
    """Return lines for the terminal and the report, each under a name."""
    then = read_record(Path(outcome["of"]))
    if outcome["agrees"]:
        said = "all metrics agree to the last digit"
    elif then["metrics"]:
        said = f"{len(outcome['metrics'])} of {len(then['metrics'])} metrics differ"
    else:
        said = f"nothing to compare with: that run is {then['state']} and has no metrics"
    lines = {"rerun": said}
    for name, (old, new) in (outcome["metrics"] | outcome["circumstances"]).items():
        lines[f"  {name}"] = f"{old} then, {new} now"
    if then["seed"] is None:
        lines["  seed"] = "null: every run draws its own"
    if (then["git"] or {}).get("dirty"):
        lines["  git"] = "that run had changes that were not committed: its code may have been another"
    return lines


def differing(then: Mapping[str, Any], now: Mapping[str, Any]) -> dict[str, list[Any]]:
    return {name: [then.get(name), now.get(name)] for name in {**then, **now} if then.get(name) != now.get(name)}
