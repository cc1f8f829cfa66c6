"""Hydra's plugins that find the group `debug` in every application of an environment that has this package.

Hydra imports what lies in the namespace `hydra_plugins` at every start: nothing heavy here. Options of the same name
in the application's own config directory come first; an application whose own group has that name chooses another.
"""

import sys

from hydra._internal.core_plugins.importlib_resources_config_source import ImportlibResourcesConfigSource
from hydra.core.config_search_path import ConfigSearchPath
from hydra.core.object_type import ObjectType
from hydra.plugins.config_source import ConfigResult, ConfigSource
from hydra.plugins.search_path_plugin import SearchPathPlugin

CONFIGS = "training_checklist.conf"


class TrainingChecklistSearchPath(SearchPathPlugin):
    def manipulate_search_path(self, search_path: ConfigSearchPath) -> None:
        from training_checklist.group import ALWAYS, OWN, PROVIDER, group_name

        place = f"pkg://{CONFIGS}" if group_name() == OWN else f"checklist://{group_name()}"
        for path in (place, f"checklist://{ALWAYS}"):
            search_path.append(provider=PROVIDER, path=path)
        if any(argument.lstrip("+").startswith(f"{group_name()}=") for argument in sys.argv[1:]):
            from training_checklist.hydra_callbacks.unreadable_files import tell_of_unreadable_files

            tell_of_unreadable_files()


class RenamedGroup(ConfigSource):
    """The items' configs under another group's name: checklist://check holds check/overfit.yaml."""

    def __init__(self, provider: str, path: str) -> None:
        super().__init__(provider, path)
        self.inside = ImportlibResourcesConfigSource(provider, f"pkg://{CONFIGS}")

    @staticmethod
    def scheme() -> str:
        return "checklist"

    def available(self) -> bool:
        return self.inside.available()

    def load_config(self, config_path: str) -> ConfigResult:
        return self.inside.load_config(self._own(config_path))

    def is_group(self, config_path: str) -> bool:
        return config_path == "" or self.inside.is_group(self._own(config_path))

    def is_config(self, config_path: str) -> bool:
        return self.inside.is_config(self._own(config_path))

    def list(self, config_path: str, results_filter: ObjectType | None) -> list[str]:
        from training_checklist.group import ALWAYS

        if config_path == "":  # what no help lists has its options under another name, too
            return [self.path] if results_filter in (None, ObjectType.GROUP) and self.path != ALWAYS else []
        return self.inside.list(self._own(config_path), results_filter)

    def _own(self, config_path: str) -> str:
        name, slash, rest = config_path.partition("/")
        return f"debug{slash}{rest}" if name == self.path else f"no such group as {config_path}"
