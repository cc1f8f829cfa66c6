"""Hydra's plugins by which a command finds the items' configs, in every environment that has this package.

Hydra imports what lies in the namespace `hydra_plugins` at every start: nothing heavy here. Options of the same name
in the application's own config directory come first.
"""

from hydra._internal.core_plugins.importlib_resources_config_source import ImportlibResourcesConfigSource
from hydra.core.config_search_path import ConfigSearchPath
from hydra.core.object_type import ObjectType
from hydra.errors import HydraException
from hydra.plugins.config_source import ConfigResult, ConfigSource
from hydra.plugins.search_path_plugin import SearchPathPlugin
from omegaconf import OmegaConf

CONFIGS = "training_checklist.conf"
NOT_BY_HAND = (
    "+{} needs hydra.main, which runs the items: this program composes its config with hydra.compose and would train. "
    "Call training_checklist.check(module, datamodule) in it, with the objects that its Trainer is given"
)


class TrainingChecklistSearchPath(SearchPathPlugin):
    def manipulate_search_path(self, search_path: ConfigSearchPath) -> None:
        from training_checklist.group import OWN, PROVIDER, look_from, offered, typed_group

        look_from(element.path for element in search_path.get_path() if element.provider == "main")
        for name in offered():
            path = f"pkg://{CONFIGS}" if name == OWN else f"checklist://{name}"
            search_path.append(provider=PROVIDER, path=path)
        if typed_group() is not None:
            from training_checklist.hydra_callbacks.unreadable_files import tell_of_unreadable_files

            tell_of_unreadable_files()


class Items(ConfigSource):
    """The items' configs under another group's name: checklist://check holds check/overfit.yaml.

    In the groups that no project has chosen they leave the project's own config as it is: its `trainer` may be
    anything, and so may `callbacks`. What an item needs there, its Trainer is given when it is built.
    """

    def __init__(self, provider: str, path: str) -> None:
        super().__init__(provider, path)
        self.inside = ImportlibResourcesConfigSource(provider, f"pkg://{CONFIGS}")

    @staticmethod
    def scheme() -> str:
        return "checklist"

    def available(self) -> bool:
        return self.inside.available()

    def load_config(self, config_path: str) -> ConfigResult:
        from training_checklist.group import DOOR, composed_by_hand, goes_on_to_main, group_name

        by_hand = self.path == DOOR and composed_by_hand()
        if by_hand and not goes_on_to_main():
            raise HydraException(NOT_BY_HAND.format(config_path.removesuffix(".yaml").replace("/", "=")))
        found = self.inside.load_config(self._own(config_path))
        if self.path != group_name() and "hydra" in found.config:
            found.config = OmegaConf.masked_copy(found.config, [] if by_hand else ["hydra"])
        return found

    def is_group(self, config_path: str) -> bool:
        return config_path == "" or self.inside.is_group(self._own(config_path))

    def is_config(self, config_path: str) -> bool:
        return self.inside.is_config(self._own(config_path))

    def list(self, config_path: str, results_filter: ObjectType | None) -> list[str]:
        from training_checklist.group import ALL, ALWAYS, CHECKLIST, DOOR

        if config_path == "":  # what no help lists has its options under another name, too
            return [self.path] if results_filter in (None, ObjectType.GROUP) and self.path != ALWAYS else []
        names = self.inside.list(self._own(config_path), results_filter)
        return [ALL if name == CHECKLIST and self.path == DOOR else name for name in names]

    def _own(self, config_path: str) -> str:
        from training_checklist.group import ALL, CHECKLIST, DOOR

        name, slash, rest = config_path.partition("/")
        rest = CHECKLIST if self.path == DOOR and rest.removesuffix(".yaml") == ALL else rest
        return f"debug{slash}{rest}" if name == self.path else f"no such group as {config_path}"
