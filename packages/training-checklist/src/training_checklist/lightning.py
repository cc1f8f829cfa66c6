"""Lightning under the name by which the project imports it: `lightning.pytorch` or `pytorch_lightning`.

They hold the same classes twice, and a module of one is none of the other's. A process has one project, so the name is
chosen once: what is imported already decides (where both are, the one that a LightningModule derives from), then what
the program's own text names, the config, the files beside the program, which may be imported later, then what is
installed.
"""

import importlib
import os
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from itertools import chain, islice
from pathlib import Path
from types import ModuleType
from typing import Any

from hydra.core.hydra_config import HydraConfig
from omegaconf import OmegaConf

NAMES = ("lightning.pytorch", "pytorch_lightning")
# An import, or a target in a config.
IMPORTS = {
    "lightning.pytorch": re.compile(r"^\s*(from|import|_target_:)\s+['\"]?lightning\b", re.MULTILINE),
    "pytorch_lightning": re.compile(r"^\s*(from|import|_target_:)\s+['\"]?pytorch_lightning\b", re.MULTILINE),
}
DERIVES = re.compile(r"^class .*\bLightningModule\b", re.MULTILINE)
MANY = 200  # files beside the program, beyond which no further ones are read


def chosen() -> str:
    """Return the name of Lightning's package in this process.

    Raises:
        ImportError: there is none.
    """
    installed = [name for name in NAMES if find_spec(name.partition(".")[0]) is not None]
    if not installed:
        raise ImportError("training-checklist needs pytorch-lightning or lightning, and neither is installed")
    loaded = [name for name in installed if f"{name}.trainer.trainer" in sys.modules]
    if len(installed) == 1 or len(loaded) == 1:
        return (loaded or installed)[0]
    derived = [name for name in loaded if is_derived_from(name)]
    if len(derived) == 1:
        return derived[0]
    found = [named_in(text, installed) for text in (script(), config())]
    modules = (named_in(text, installed) for text in texts_beside() if DERIVES.search(text))
    for named in chain(found, modules):
        if len(named) == 1:  # of two in a text, one may be that of a class for annotations
            return named[0]
    beside = (named_in(text, installed) for text in texts_beside())
    return (next(filter(None, chain(found, beside)), None) or loaded or installed[::-1])[0]


def named_in(text: str, names: list[str]) -> list[str]:
    return [name for name in names if IMPORTS[name].search(text)]


def is_derived_from(name: str) -> bool:
    """Whether a class outside of Lightning is a LightningModule of this package."""
    classes = sys.modules[f"{name}.core.module"].LightningModule.__subclasses__()
    return any(each.__module__.partition(".")[0] not in ("lightning", "pytorch_lightning") for each in classes)


def script() -> str:
    """Return the text of the program that was started, or ""."""
    file = getattr(sys.modules.get("__main__"), "__file__", None)
    try:
        return Path(file).read_text(encoding="utf-8") if file is not None else ""
    except (OSError, ValueError):
        return ""


def config() -> str:
    """Return the config of this job as it is written, or ""."""
    composed = HydraConfig.instance().cfg
    return "" if composed is None else OmegaConf.to_yaml(composed)


def texts_beside() -> Iterator[str]:
    for path in islice(files_beside(), MANY):
        with suppress(OSError, ValueError):
            yield path.read_text(encoding="utf-8")


def files_beside() -> Iterator[Path]:
    """Yield the Python files in the program's folder, and in the working directory."""
    file = getattr(sys.modules.get("__main__"), "__file__", None)
    folders = {Path.cwd(), *([] if file is None else [Path(file).absolute().parent])}
    for folder in sorted(folders):
        yield from walk(folder)


def walk(folder: Path) -> Iterator[Path]:
    for parent, folders, names in os.walk(folder):
        folders[:] = [name for name in sorted(folders) if name[0] not in "._" and name not in ("site-packages", "venv")]
        yield from (Path(parent, name) for name in sorted(names) if name.endswith(".py"))


def part(path: str) -> ModuleType:
    """Return a module of Lightning by its path in the package: part("utilities.seed")."""
    return importlib.import_module(f"{NAME}.{path}")


def fabric(path: str) -> ModuleType:
    """Return a module of Lightning Fabric."""
    return importlib.import_module(f"{'lightning.fabric' if NAMES[0] == NAME else 'lightning_fabric'}.{path}")


NAME = chosen()
ROOT = importlib.import_module(NAME)

Callback, Trainer = ROOT.Callback, ROOT.Trainer
LightningModule, LightningDataModule = ROOT.LightningModule, ROOT.LightningDataModule
_callbacks, _loggers = part("callbacks"), part("loggers")
Checkpoint, ModelCheckpoint, EarlyStopping = (
    _callbacks.Checkpoint,
    _callbacks.ModelCheckpoint,
    _callbacks.EarlyStopping,
)
ProgressBar = _callbacks.ProgressBar
Logger, CSVLogger, TensorBoardLogger = _loggers.Logger, _loggers.CSVLogger, _loggers.TensorBoardLogger
MixedPrecision = part("plugins.precision").MixedPrecision
CombinedLoader = part("utilities.combined_loader").CombinedLoader
_states = part("trainer.states")
RunningStage, TrainerState = _states.RunningStage, _states.TrainerState
is_overridden = part("utilities.model_helpers").is_overridden
_seed = fabric("utilities.seed")
collect_rng_states, set_rng_states = (
    _seed._collect_rng_states,
    _seed._set_rng_states,
)  # of Python, NumPy, torch and CUDA


@contextmanager
def isolate_rng(include_cuda: bool = True) -> Iterator[None]:
    """Leave the random numbers that follow as they are. Lightning's own does not where what is inside raises."""
    states = collect_rng_states(include_cuda)
    try:
        yield
    finally:
        set_rng_states(states)


def makes_one_batch(trainer: Trainer) -> bool:
    """Whether the loaders of training give their batches together, and not one after another."""
    return trainer.fit_loop._combined_loader._mode != "sequential"


def combined(loaders: Any, mode: str = "min_size") -> CombinedLoader:
    """Return loaders as one; of what the project has combined itself a twin, as the run may be iterating it."""
    if isinstance(loaders, CombinedLoader):
        return CombinedLoader(loaders.iterables, loaders._mode)
    return CombinedLoader(loaders, mode)
