"""What the items' group is called in this project: `debug`, or what the project has chosen where that is taken.

In its pyproject.toml, `[tool.training-checklist]` with `group = "check"`; the variable TRAINING_CHECKLIST_GROUP comes
first. Hydra asks at every start: nothing heavy here.
"""

import os
import tomllib
from functools import cache
from pathlib import Path

OWN = "debug"  # what the folder of the configs is called
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
