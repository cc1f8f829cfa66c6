"""The command of this job with other overrides, for a finding's next step."""

import shlex

from omegaconf import DictConfig
from training_config.overrides import given as overrides_of
from training_config.overrides import key_of

from training_checklist.group import group_name
from training_checklist.settings import KEY


def command(config: DictConfig, *overrides: str) -> str:
    """Return the job's command without its debug items, with `overrides` in the place of those for the same keys.

    `~key` takes an override for that key away where the command has one.
    """
    given = [text for text in overrides_of(config, "task") if key_of(text).partition(".")[0] not in (group_name(), KEY)]
    keys = {key_of(override) for override in overrides}
    kept = [text for text in given if key_of(text) not in keys]
    replaced = {key_of(text) for text in given} & keys
    added = [text for text in overrides if not (text.startswith("~") and key_of(text) in replaced)]
    return shlex.join(["python", f"{config.hydra.job.name}.py", *kept, *added])
