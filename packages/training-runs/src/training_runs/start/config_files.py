"""Config files, each of them read and parsed once, and each expression in them."""

from copy import deepcopy
from functools import lru_cache
from pathlib import Path
from typing import Any

import omegaconf
from hydra._internal.config_repository import ConfigRepository
from hydra.plugins.config_source import ConfigResult, ConfigSource

READ = ConfigRepository.load_config
PARSE = omegaconf.grammar_parser.parse


def read_once() -> None:
    """Have Hydra keep what it reads of config files, from now on, while they stay as they are.

    Hydra 1.3.8 composes twice for every run and every job of a sweep, which is most of what a short job costs.
    """
    kept: dict[tuple[Any, ...], ConfigResult | None] = {}

    def load_config(repository: ConfigRepository, config_path: str) -> ConfigResult | None:
        key = (config_path, *(version(source, config_path) for source in repository.get_sources()))
        if key not in kept:
            kept[key] = READ(repository, config_path)
        return deepcopy(kept[key])  # what Hydra composes shares the nodes of what it has read

    ConfigRepository.load_config = load_config


def parse_expressions_once() -> None:
    """Have OmegaConf keep the parse tree of an expression, from now on.

    OmegaConf 2.3.1 parses a `${...}` anew whenever it is copied or looked at: a tenth of what a short job costs.
    """
    omegaconf.base.parse = omegaconf._utils.parse = lru_cache(maxsize=4096)(PARSE)


def version(source: ConfigSource, config_path: str) -> tuple[Any, ...]:
    """Return what changes when a source has other content for a config: of a file, when it was written and its size."""
    if source.scheme() != "file":
        return (source.path,)
    path = Path(source.path, config_path)
    path = path if path.suffix == ".yaml" else path.with_name(f"{path.name}.yaml")
    try:
        stat = path.stat()
    except OSError:  # the config is another source's
        return (source.path,)
    return source.path, stat.st_mtime_ns, stat.st_size
