"""`lightning` under which `pytorch_lightning` lies, so that a project of the one can be tried with the other."""

import importlib
import sys
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType

NAMES = {"lightning.pytorch": "pytorch_lightning", "lightning.fabric": "lightning_fabric"}


class Alias(MetaPathFinder, Loader):
    def find_spec(self, name: str, path: object, target: object = None) -> ModuleSpec | None:
        known = any(name == old or name.startswith(f"{old}.") for old in NAMES)
        return ModuleSpec(name, self) if known else None

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        old = next(old for old in NAMES if spec.name == old or spec.name.startswith(f"{old}."))
        module = importlib.import_module(NAMES[old] + spec.name.removeprefix(old))
        self.kept = module.__spec__
        return module

    def exec_module(self, module: ModuleType) -> None:
        module.__spec__ = self.kept  # the import system has replaced it with the alias's


sys.meta_path.insert(0, Alias())

from pytorch_lightning import __version__  # noqa: E402, F401

from lightning.pytorch import *  # noqa: E402, F403
