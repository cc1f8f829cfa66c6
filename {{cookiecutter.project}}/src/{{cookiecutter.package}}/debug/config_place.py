"""Where a value of the config stands: the keys that hold it, and the file and line that a user would change."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from hydra.core.hydra_config import HydraConfig
from omegaconf import DictConfig, OmegaConf

from .place import shorten


def leaves(node: Any, prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yield (dotted key, value) of a plain container."""
    pairs = node.items() if isinstance(node, dict) else enumerate(node)
    for key, value in pairs:
        full_key = f"{prefix}.{key}" if prefix else str(key)
        if isinstance(value, (dict, list)):
            yield from leaves(value, full_key)
        else:
            yield full_key, value


def raw_leaves(config: DictConfig | None) -> dict[str, Any]:
    """Return every value of a config as it was written, under its dotted key."""
    return {} if config is None else dict(leaves(OmegaConf.to_container(config, resolve=False)))


def keys_named(config: DictConfig | None, name: str) -> list[str]:
    return [key for key in raw_leaves(config) if key.rpartition(".")[2] == name]


def set_in(key: str) -> str:
    """Return where a key was set, as " (the command line)" or " (conf/callbacks/checkpoint.yaml:5)", or ""."""
    if not HydraConfig.initialized():
        return ""
    hydra = HydraConfig.get()
    if any(override.lstrip("+").partition("=")[0] == key for override in hydra.overrides.task):
        return " (the command line)"
    folders = [Path(source.path) for source in hydra.runtime.config_sources if source.schema == "file"]
    names = [
        f"{group}/{option.strip()}"
        for group, options in hydra.runtime.choices.items()
        if key.startswith(f"{group.replace('/', '.')}.")
        for option in str(options).strip("[]").split(",")
    ]
    for name in [*names, hydra.job.config_name]:
        for folder in folders:
            line = line_of(folder / f"{name}.yaml", key.rpartition(".")[2])
            if line:
                return f" ({shorten(str(folder / f'{name}.yaml'))}:{line})"
    return ""


def line_of(file: Path, name: str) -> int:
    """Return the number of the first line of a YAML file that sets a key of a name, or 0."""
    lines = file.read_text(encoding="utf-8").splitlines() if file.is_file() else []
    found = (number for number, line in enumerate(lines, 1) if re.match(rf"\s*{re.escape(name)}\s*:", line))
    return next(found, 0)


def debug_option(item: str) -> str:
    """Return the override that turns an item of the checklist on, as this command line must spell it."""
    if HydraConfig.initialized():
        hydra = HydraConfig.get()
        added = any(override.startswith("+debug=") for override in hydra.overrides.task)
        if "debug" in hydra.runtime.choices and not added:
            return f"debug={item}"
    return f"+debug={item}"
