"""Config files, each of them read and parsed once by a command."""

import functools
from copy import deepcopy
from inspect import unwrap
from typing import Any

from hydra._internal.config_repository import ConfigRepository
from hydra.plugins.config_source import ConfigResult


def read_once() -> None:
    """Have Hydra keep what it reads of config files, from now on: all jobs of a sweep are composed of the same files.

    Hydra 1.3.8 composes twice for every run and every job of a sweep, which is most of what a short job costs.
    """
    read = unwrap(ConfigRepository.load_config)
    kept: dict[tuple[Any, ...], ConfigResult | None] = {}

    @functools.wraps(read)
    def load_config(repository: ConfigRepository, config_path: str) -> ConfigResult | None:
        key = (config_path, *(source.path for source in repository.get_sources()))
        if key not in kept:
            kept[key] = read(repository, config_path)
        return deepcopy(kept[key])  # what Hydra composes shares the nodes of what it has read

    ConfigRepository.load_config = load_config
