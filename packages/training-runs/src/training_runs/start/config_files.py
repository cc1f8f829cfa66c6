"""Config files, each of them read and parsed once by a command."""

import functools
import sys
from collections.abc import Callable
from copy import deepcopy
from inspect import unwrap
from pathlib import Path
from typing import Any

from hydra._internal.config_repository import CachingConfigRepository, ConfigRepository, IConfigRepository
from hydra.errors import HydraException
from hydra.plugins.config_source import ConfigResult
from training_config.errors import ConfigError
from training_config.yaml_files import check_size

Read = Callable[[ConfigRepository, str], ConfigResult | None]
DEEP = 500  # frames: Hydra takes some three for each config that another one names, and Python ends at a thousand


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
            kept[key] = checked(read, repository, config_path)
        return deepcopy(kept[key])  # what Hydra composes shares the nodes of what it has read

    ConfigRepository.load_config = load_config
    cached = unwrap(CachingConfigRepository.load_config)  # what Hydra asks, also again and again for one file

    @functools.wraps(cached)
    def load_cached(repository: CachingConfigRepository, config_path: str) -> ConfigResult | None:
        if is_deep():
            raise ConfigError(f"{file_of(repository, config_path) or config_path}: its defaults lead back to itself")
        return cached(repository, config_path)

    CachingConfigRepository.load_config = load_cached


def checked(read: Read, repository: ConfigRepository, config_path: str) -> ConfigResult | None:
    """Read a config; what is wrong with its file, of many kinds, becomes one line that names it.

    Raises:
        ConfigError: it is no YAML, no UTF-8, cannot be opened, or has no defaults that Hydra knows.
    """
    file = file_of(repository, config_path)
    try:
        if file is not None:
            check_size(file.read_text(encoding="utf-8"))
        return read(repository, config_path)
    except HydraException:
        raise
    except Exception as error:
        if file is None:
            raise
        reason = " ".join(str(error).replace(str(file), file.name).split())
        raise ConfigError(f"{file} cannot be read ({reason}); repair it, or choose another option") from error


def file_of(repository: IConfigRepository, config_path: str | None) -> Path | None:
    """Return the file that a config is read from; None of a library's own."""
    name = f"{str(config_path).removesuffix('.yaml')}.yaml"
    files = (Path(source.path, name) for source in repository.get_sources() if source.scheme() == "file")
    return next((file for file in files if file.is_file()), None)


def is_deep() -> bool:
    """Whether so much is being called that something calls itself."""
    try:
        sys._getframe(DEEP)
    except ValueError:
        return False
    return True
