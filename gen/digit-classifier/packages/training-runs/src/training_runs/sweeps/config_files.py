"""The config files of a sweep, each of them read once."""

from copy import deepcopy

from hydra._internal.config_repository import ConfigRepository
from hydra.plugins.config_source import ConfigResult

READ = ConfigRepository.load_config


def read_once() -> None:
    """Have Hydra keep what it reads of config files from now on.

    Hydra 1.3.8 reads and parses all of them twice for every job of a sweep, which is most of what a short job costs.
    What is changed in conf/ while a sweep runs then counts for none of its jobs.
    """
    kept: dict[tuple[str, ...], ConfigResult | None] = {}

    def load_config(repository: ConfigRepository, config_path: str) -> ConfigResult | None:
        key = (config_path, *(source.path for source in repository.get_sources()))
        if key not in kept:
            kept[key] = READ(repository, config_path)
        return deepcopy(kept[key])  # what Hydra composes shares the nodes of what it has read

    ConfigRepository.load_config = load_config
