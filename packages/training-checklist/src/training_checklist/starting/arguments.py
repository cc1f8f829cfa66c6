"""The overrides of an item's command: those that were typed, with the item in the place of what they ask for."""

from omegaconf import DictConfig, OmegaConf
from training_config.overrides import given, job_settings, key_of

from training_checklist.group import ALWAYS, group_of, groups, option
from training_checklist.starting.shape import packaged

CALLBACK = "debug"  # key of the items' Hydra callback
ALONE = "hydra.mode=RUN"  # a sweep's job, and a project whose config sweeps unasked, is a run of its own
OF_ITEMS = "callbacks.debug_"  # keys that only an item has


def same(config: DictConfig) -> list[str]:
    """Return the overrides of this job, without what is a sweep's."""
    return [*given(config, "task"), *job_settings(config), ALONE]


def replaced(config: DictConfig, item: str) -> list[str]:
    """Return the overrides of this job with `item` in the place of the checklist, without what is a sweep's."""
    kept = [text for text in job_settings(config) if not key_of(text).startswith(f"hydra.callbacks.{CALLBACK}")]
    changed = [turned_to(item, text) if is_group(text) else text for text in given(config, "task")]
    # What a project's Trainer lacks is added with one +, and refused where the item sets it too.
    changed = [f"+{text}" if text.startswith("+trainer.") else text for text in changed]
    return [*changed, *kept, ALONE]


def without(
    config: DictConfig, items: list[str], stages: bool | None, whole_tests: bool, in_one_process: bool
) -> list[str]:
    """Return the overrides of this job with nothing of these items but their limits.

    Args:
        stages: as of `Report`.
        whole_tests: likewise.
        in_one_process: even where the items have several.
    """
    kept = [text for text in job_settings(config) if not key_of(text).startswith(f"hydra.callbacks.{CALLBACK}")]
    own = [text for text in given(config, "task") if not is_group(text) and not key_of(text).startswith(OF_ITEMS)]
    of_trial = f"hydra.callbacks.{CALLBACK}"
    return [
        *own,
        *kept,
        ALONE,
        f"+{ALWAYS}/trial=without",
        f"{of_trial}.limits_of=[{','.join(items)}]",
        f"{of_trial}.one_device={str(in_one_process or any(map(is_of_one_device, items))).lower()}",
        f"{of_trial}.stages={'null' if stages is None else str(stages).lower()}",
        f"{of_trial}.whole_tests={str(whole_tests).lower()}",
    ]


def is_of_one_device(item: str) -> bool:
    """Whether an item's run has one process, whatever the project's has."""
    key = f"hydra.callbacks.{CALLBACK}.one_device"
    return bool(OmegaConf.select(packaged(item) or OmegaConf.create(), key, default=False))


def is_group(override: str) -> bool:
    """Whether an override asks for items."""
    return key_of(override).partition("@")[0] in groups()


def turned_to(item: str, override: str) -> str:
    """Return an override that turns `item` on, in the place of one that turns on another."""
    typed, name = key_of(override), group_of(item)
    if typed != name:  # hidden there, and DOOR is only where a command asks for it
        return f"+{ALWAYS}={item}"
    return f"{override.partition('=')[0]}={option(typed, item)}"
