"""What of its config a run may go on with otherwise: what only lasts longer, says more, or lies elsewhere.

Everything else would make another training of the rest, under the name of the first: its best checkpoint would be
judged by other images or another metric, and values that the checkpoint has the state of would be undone by it.
"""

from collections.abc import Iterable, Iterator, Mapping
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from hydra.core.override_parser.types import Override
from omegaconf import DictConfig, OmegaConf
from training_config.errors import ConfigError
from training_config.secret_values import redact
from training_config.targets import locate, parameters_of, targets
from training_config.uncollected_imports import uncollected_imports
from training_config.walk import chosen

from training_runs.records.runs import read_checkpoint

UNREAD = ("allow", "print_config")  # of no run: what is done and written is the same
LASTS = {"trainer.max_epochs": "epochs", "trainer.max_steps": "steps", "trainer.max_time": ""}
SAYS = (
    *("test", "figures", "no_progress_minutes", "checks", "checks.*", "logger", "logger.*"),
    *("trainer.log_every_n_steps", "trainer.limit_test_batches", "trainer.detect_anomaly", "trainer.profiler*"),
    *("trainer.enable_progress_bar", "trainer.enable_model_summary", "callbacks.last_checkpoint.every_n_train_steps"),
)
# Where its files are and which devices and processes work for it; samplers and augmentations here follow from seed and
# epoch, whoever loads. Another number of ranks is refused by the checkpoint.
LIES = (
    *("data_dir", "data.data_dir", "data.folder", "data.labels", "data.csv", "data.num_workers", "data.device"),
    *("trainer.accelerator", "trainer.devices", "trainer.num_nodes"),
)
# Of Lightning; a class of one's own says `only_reports = True`.
REPORTERS = (
    *("LearningRateMonitor", "DeviceStatsMonitor", "ThroughputMonitor", "ModelSummary", "RichModelSummary"),
    *("ProgressBar", "RichProgressBar", "TQDMProgressBar"),
)
# What training goes on from in a checkpoint, and of which kind it is; weights alone have none of the first.
REQUIRED = ("epoch", "global_step", "loops", "optimizer_states", "callbacks")
PARTS = {"epoch": int, "global_step": int, "loops": dict, "optimizer_states": list, "callbacks": dict}
PARTS |= {"lr_schedulers": list, "between_batches": dict}
ABSENT = object()
WAY_OUT = "leave it out, or leave resume out and start a new run"


def apply(override: Override, saved: DictConfig, composed: Mapping[str, Any], before: Iterable[str]) -> dict[str, Any]:
    """Change `saved` as an override says; return what a key had, for each key that is another now.

    Args:
        override: of this start.
        saved: the config that the run has been started with.
        composed: what this start composed, as plain data: a group's values, where the override chooses one.
        before: the overrides of earlier starts. A group that was chosen then stays what it was then.

    Raises:
        ConfigError: the override belongs to no key.
    """
    key, former = override.key_or_group, values(saved)
    above, _, name = key.rpartition(".")
    found, value = lookup(composed, key)
    if override.is_delete():
        parent = OmegaConf.select(saved, above) if above else saved
        if OmegaConf.is_dict(parent):
            parent.pop(name, None)
    elif override.input_line in before and (not found or isinstance(value, dict)):
        return {}
    elif found:
        OmegaConf.update(saved, key, value, merge=False, force_add=True)
    else:
        raise ConfigError(
            f"{override.input_line} changes the config in many places and cannot be added to one that is saved; "
            "override single values, or leave resume out and start a new run"
        )
    now = values(saved)
    has = {each: (former.get(each, ABSENT), now.get(each, ABSENT)) for each in {**former, **now}}
    return {each: before for each, (before, after) in has.items() if before != after}


def lookup(container: Mapping[str, Any], key: str) -> tuple[bool, Any]:
    value: Any = container
    for part in key.replace("/", ".").split("."):
        if not isinstance(value, dict) or part not in value:
            return False, None
        value = value[part]
    return True, value


def values(cfg: DictConfig) -> dict[str, Any]:
    """Return every value of a config under its dotted key, not resolved and without secrets; a list is one value."""
    return dict(leaves(redact(OmegaConf.to_container(cfg, resolve=False))))


def leaves(content: Any, key: str = "") -> Iterator[tuple[str, Any]]:
    if isinstance(content, dict) and content:
        for name, each in content.items():
            yield from leaves(each, f"{key}.{name}" if key else str(name))
    else:
        yield key, content


def check_changes(override: Override, changes: Mapping[str, Any], saved: DictConfig, cfg: DictConfig) -> None:
    """Refuse an override that makes another training of a run that goes on.

    Args:
        override: of this start.
        changes: what `apply` has returned for it.
        saved: the config as the run was started.
        cfg: the same with the change.

    Raises:
        ConfigError: it names the override and what the run has.
    """
    for key, former in changes.items():
        if any(fnmatchcase(key, pattern) for pattern in (*UNREAD, *LASTS, *SAYS, *LIES)):
            continue
        if key.startswith("callbacks.") and all(only_reports(each, key.split(".")[1]) for each in (saved, cfg)):
            continue
        from training_config.check import shown  # pydantic, which a help text does not need

        has = "the run has none" if former is ABSENT else f"the run has {key}={shown(former, key)}"
        raise ConfigError(f"{override.input_line.lstrip('+')} cannot change a run that goes on: {has}; {WAY_OUT}")


def only_reports(cfg: DictConfig, name: str) -> bool:
    """Whether a callback, if there is such a one, leaves training and checkpoints as they would be without it."""
    target = chosen(cfg, f"callbacks.{name}._target_")
    if not isinstance(target, str):
        return True
    with uncollected_imports():
        try:
            callback = locate(target)
        except ImportError:  # the check of the config says so
            return True
    kinds = getattr(callback, "__mro__", ())
    return getattr(callback, "only_reports", False) or any(kind.__name__ in REPORTERS for kind in kinds)


def check_length(cfg: DictConfig, changed: Iterable[str], checkpoint: Mapping[str, Any]) -> None:
    """Refuse an end that the run has gone beyond, and another one where a schedule is laid out over the length.

    Raises:
        ConfigError: it names the key, its value and what has been trained.
    """
    from training_config.check import shown

    from training_runs.checkpoints.last_checkpoint import trained  # torch

    has = dict(zip(("epochs", "steps"), trained(checkpoint), strict=True))
    for key in (each for each in LASTS if each in changed):
        most = chosen(cfg, key)
        if isinstance(most, int) and 0 <= most < has.get(LASTS[key], 0):
            raise ConfigError(
                f"{key}={most} cannot be the end of this run, which has trained {has[LASTS[key]]} {LASTS[key]}; say at "
                "least as many, or leave resume out and start a new run"
            )
        laid_out = next(laid_out_over_the_length(cfg), None)
        if laid_out is not None:
            raise ConfigError(
                f"{key}={shown(most, key)} cannot change a run that goes on: {laid_out} is laid out over the length of "
                f"training, and has been from its start; {WAY_OUT}"
            )


def laid_out_over_the_length(cfg: DictConfig) -> Iterator[str]:
    """Yield `key=class` of each part that `build_schedule` gives the number of steps."""
    for key, node in targets(cfg):
        name = chosen(cfg, f"{key}._target_")
        if isinstance(name, str) and node.get("total_steps") is None:
            try:
                if "total_steps" in (parameters_of(locate(name)) or ()):
                    yield f"{key}._target_={name}"
            except ImportError:  # the check of the config says so
                continue


def check_judges(callbacks: Iterable[Any], checkpoint: Mapping[str, Any]) -> None:
    """Refuse to go on where a best checkpoint would be replaced by one that is judged otherwise.

    Args:
        callbacks: the Trainer's that keep checkpoints.
        checkpoint: from which it goes on. Lightning files the scores of a ModelCheckpoint under what it monitors.

    Raises:
        ConfigError: it names both.
    """
    states = checkpoint.get("callbacks", {})
    for callback in callbacks:
        kept = [key for key in states if key.startswith(f"{type(callback).__qualname__}{{")]
        if kept and callback.state_key not in states:
            raise ConfigError(
                f"this run's best checkpoint was judged by {kept[0]}, and would be replaced by what is judged by "
                f"{callback.state_key}; put back what its config had, or leave resume out and start a new run"
            )


def resume_point(path: Path) -> dict[str, Any]:
    """Return the checkpoint from which a run goes on.

    Raises:
        ConfigError: it is damaged, or lacks what training goes on from.
    """
    try:
        checkpoint = read_checkpoint(path)
        lacking = [name for name, kind in PARTS.items() if not isinstance(checkpoint.get(name, kind()), kind)]
        lacking += [name for name in REQUIRED if name not in checkpoint]
        if lacking:
            raise ConfigError(f"{path} cannot be gone on from: it has no {', '.join(lacking)}")
        return checkpoint
    except ConfigError as error:
        reason = str(error).removeprefix("ckpt=").partition("; use ")[0]
        raise ConfigError(f"{reason}; copy it here anew, or leave resume out and start a new run") from error
