"""What the items' group is called in this project: `debug`, or what the project has chosen where that is taken.

In its pyproject.toml, `[tool.training-checklist]` with `group = "check"`; the variable TRAINING_CHECKLIST_GROUP comes
first. An item whose name a config of the project's own has in that group is found under `ALWAYS`. Hydra asks at every
start: nothing heavy here.
"""

import os
import tomllib
from functools import cache
from pathlib import Path

OWN = "debug"  # what the folder of the configs is called
ALWAYS = "training_checklist"  # the items' second group, which no help lists
PROVIDER = "training-checklist"  # of both, in Hydra's search path
VARIABLE = "TRAINING_CHECKLIST_GROUP"


@cache
def group_name() -> str:
    if VARIABLE in os.environ:
        return os.environ[VARIABLE]
    try:
        text = Path("pyproject.toml").read_text(encoding="utf-8")
        settings = tomllib.loads(text)["tool"]["training-checklist"] if "training-checklist" in text else {}
    except (OSError, ValueError, KeyError):
        return OWN
    return str(settings.get("group", OWN))


def group_of(item: str) -> str:
    """Return the group in which an item is found: the project's own debug/overfit.yaml hides the one of that name."""
    from hydra.core.global_hydra import GlobalHydra
    from omegaconf import OmegaConf

    hydra = GlobalHydra.instance()
    found = hydra.config_loader().repository.load_config(f"{group_name()}/{item}") if hydra.is_initialized() else None
    if found is None or found.provider == PROVIDER or found.defaults_list:
        return group_name()
    is_item = OmegaConf.select(found.config, f"hydra.callbacks.{OWN}") is not None  # the project's own version of it
    return group_name() if is_item else ALWAYS
