"""What the checkpoints of a run hold, and what training is that is resumed from one."""

import pickle
import re
import sys
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from omegaconf import DictConfig, OmegaConf
from torch import Tensor

from training_checklist.diagnosis.config_place import keys_named, place_of
from training_checklist.diagnosis.diagnose import causes_of, diagnose
from training_checklist.engines.fingerprints import state_of
from training_checklist.engines.own_code import is_installed
from training_checklist.finding import Finding
from training_checklist.lab.seeded_runs import ResumedRun, SavedCheckpoints
from training_checklist.lightning import LightningModule, ModelCheckpoint, Trainer

PLAIN = (type(None), bool, int, float, complex, str, bytes, Tensor, torch.dtype, torch.device, torch.Size)
# Lightning's modules and functions in which a checkpoint is read.
RESTORING = {"checkpoint_connector", "load_state_dict", "restore", "load_checkpoint"}


def saved_checkpoints(trainer: Trainer, config: DictConfig | None) -> SavedCheckpoints:
    keepers = [each for each in trainer.checkpoint_callbacks if isinstance(each, ModelCheckpoint)]
    weights_only = bool(keepers) and all(keeper.save_weights_only for keeper in keepers)
    keys = [key for key in keys_named(config, "save_weights_only") if OmegaConf.select(config, key)]
    places = [place_of(config, key).beside(value="true") for key in keys]
    return SavedCheckpoints(len(keepers), weights_only, weights_only and kept_whole(keepers), places)


def kept_whole(keepers: list[ModelCheckpoint]) -> bool:
    """Whether beside the files of `keepers` lies a checkpoint from which training can go on, whoever wrote it."""
    folders = {Path(keeper.dirpath) for keeper in keepers if keeper.dirpath is not None}
    return any(holds_optimizer(path) for folder in folders for path in folder.glob("*.ckpt"))


def holds_optimizer(path: Path) -> bool:
    try:
        return "optimizer_states" in torch.load(path, "cpu", weights_only=True, mmap=True)
    except (OSError, RuntimeError, pickle.UnpicklingError):  # not one that torch has written, or with classes in it
        return False


def save(trainer: Trainer, pl_module: LightningModule, path: Path) -> ResumedRun:
    """Save a checkpoint of this moment, and return what it holds; raises nothing."""
    try:
        trainer.save_checkpoint(path, weights_only=False)
        seen = ResumedRun(saved=state_of(trainer, pl_module))
        try:
            # As Trainer.fit(ckpt_path=...) reads it; whether it takes classes depends on Lightning's version.
            trainer.strategy.load_checkpoint(path)
        except pickle.UnpicklingError as error:
            name = re.search(r"GLOBAL (\S+)", str(error))
            seen.pickled = name[1] if name else str(error).partition("\n")[0]
            seen.objects = list(objects(torch.load(path, weights_only=False, map_location="cpu")))
            seen.keeper = keeper_of(seen.objects, trainer, pl_module)
        return seen
    except Exception as error:  # what the project's own ModelCheckpoint would raise is the run's to say
        return ResumedRun(obstacle=f"no checkpoint could be saved and read: {type(error).__name__}: {error}")


def keeper_of(objects: list[tuple[str, str]], trainer: Trainer, pl_module: LightningModule) -> str:
    """Return the name of the library's class that puts all these into the checkpoint, or "".

    They are the module's hyperparameters and what its on_save_checkpoint adds, unless their place says otherwise.
    """
    file = getattr(sys.modules.get(type(pl_module).__module__), "__file__", None)
    others = ("callbacks", "datamodule", type(trainer.datamodule).__qualname__)
    if file is None or not is_installed(file) or any(path.startswith(others) for path, _ in objects):
        return ""
    return f"{type(pl_module).__module__}.{type(pl_module).__qualname__}"


def restoring_failed(error: BaseException) -> Finding | None:
    """Return what an exception means that was raised while a checkpoint was read; None of all others.

    What else a resumed run raises may come of running twice in one process.
    """
    root = list(causes_of(error))[-1]
    codes = (frame.f_code for frame, _ in traceback.walk_tb(root.__traceback__))
    if not any(RESTORING & {Path(code.co_filename).stem, code.co_name} for code in codes):
        return None
    return diagnose(error)


def objects(value: Any, path: str = "") -> Iterator[tuple[str, str]]:
    """Yield (path, class) of whatever in a checkpoint is neither tensor nor plain value."""
    if isinstance(value, (dict, list, tuple, set)) and type(value).__module__ in ("builtins", "collections"):
        for key, part in value.items() if isinstance(value, dict) else enumerate(value):
            yield from objects(part, f"{path}.{key}".lstrip("."))
    elif type(value) not in PLAIN:
        yield path, f"{type(value).__module__}.{type(value).__qualname__}"
