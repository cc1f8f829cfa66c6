"""Hydra's plugin that finds the group `debug` in every application of an environment that has this package.

Hydra imports what lies in the namespace `hydra_plugins` at every start: nothing heavy here. Options of the same name
in the application's own config directory come first.
"""

from hydra.core.config_search_path import ConfigSearchPath
from hydra.plugins.search_path_plugin import SearchPathPlugin


class TrainingChecklistSearchPath(SearchPathPlugin):
    def manipulate_search_path(self, search_path: ConfigSearchPath) -> None:
        search_path.append(provider="training-checklist", path="pkg://training_checklist.conf")
