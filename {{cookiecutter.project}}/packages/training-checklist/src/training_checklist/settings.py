"""What a project asks of the items where that is not what they ask by themselves: `checks.<item>.<argument>`.

An item's YAML reads each of its arguments with `${oc.select:checks.<item>.<argument>,<default>}`, so that a file of the
project or the command line sets it whether the item is on or not.
"""

import re
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path

from omegaconf import DictConfig, OmegaConf
from training_config.near_names import suggestion

GROUP = "debug"  # of the items' configs
KEY = "checks"
READ = re.compile(rf"oc\.select:({KEY}\.\w+\.\w+),")


def unknown_settings(config: DictConfig) -> list[str]:
    """Return a line for each setting that no item reads, with the nearest ones that an item does."""
    checks = OmegaConf.to_container(config.get(KEY) or OmegaConf.create({}), resolve=False)
    keys = [
        f"{KEY}.{item}" + (f".{argument}" if argument else "")
        for item, arguments in checks.items()
        for argument in (arguments if isinstance(arguments, dict) else [""])
    ]
    if not keys:
        return []
    known = {key for text in texts(config) for key in READ.findall(text)}
    return [f"{key} is read by no debug item{suggestion(key, known)}" for key in keys if key not in known]


def texts(config: DictConfig) -> Iterator[str]:
    """Yield the items' configs, of this package and of the project."""
    own = (source.path for source in config.hydra.runtime.config_sources if source.schema == "file")
    for folder in (files("training_checklist.conf") / GROUP, *(Path(path) / GROUP for path in own)):
        for path in folder.iterdir() if folder.is_dir() else ():
            if path.name.endswith(".yaml"):
                yield path.read_text(encoding="utf-8")
