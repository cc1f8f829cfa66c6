"""Lightning under the name by which the project imports it: `lightning.pytorch` or `pytorch_lightning`.

They hold the same classes twice, and a module of one is none of the other's. A process has one project, so the name is
chosen once: what is imported already decides, then what the program's own text names, then what is installed.
"""

import importlib
import re
import sys
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType

NAMES = ("lightning.pytorch", "pytorch_lightning")
IMPORTS = {
    "lightning.pytorch": re.compile(r"^\s*(from|import)\s+lightning\b", re.MULTILINE),
    "pytorch_lightning": re.compile(r"^\s*(from|import)\s+pytorch_lightning\b", re.MULTILINE),
}


def chosen() -> str:
    """Return the name of Lightning's package in this process.

    Raises:
        ImportError: there is none.
    """
    installed = [name for name in NAMES if find_spec(name.partition(".")[0]) is not None]
    if not installed:
        raise ImportError("training-checklist needs pytorch-lightning or lightning, and neither is installed")
    loaded = [name for name in installed if f"{name}.trainer.trainer" in sys.modules]
    named = [name for name in installed if IMPORTS[name].search(script())]
    return next(only[0] for only in (loaded if len(loaded) == 1 else [], named, loaded, installed[::-1]) if only)


def script() -> str:
    """Return the text of the program that was started, or ""."""
    file = getattr(sys.modules.get("__main__"), "__file__", None)
    try:
        return Path(file).read_text(encoding="utf-8") if file is not None else ""
    except (OSError, ValueError):
        return ""


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
isolate_rng = part("utilities.seed").isolate_rng
_seed = fabric("utilities.seed")
collect_rng_states, set_rng_states = (
    _seed._collect_rng_states,
    _seed._set_rng_states,
)  # of Python, NumPy, torch and CUDA
