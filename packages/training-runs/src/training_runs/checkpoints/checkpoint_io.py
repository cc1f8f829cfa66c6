"""How checkpoints reach the disk."""

import io
import os
import pickle
import re
import zipfile
from contextlib import suppress
from pathlib import Path
from typing import Any

import torch
from lightning_fabric.plugins import TorchCheckpointIO

from training_runs.errors import CheckpointError
from training_runs.records.runs import check_whole


class AtomicCheckpointIO(TorchCheckpointIO):
    """Replaces a checkpoint in one step: under its name lies the former one or the whole new one, whatever happens.

    Lightning 2.6.6 writes to the system's temporary folder and moves the file from there, which on another file
    system is a copy that can stop half way. Can go when Lightning writes beside the target and syncs.

    Raises:
        CheckpointError: the file cannot be written, because the disk is full or the directory read-only; or it cannot
            be read, because it is damaged or holds what would run code. The first one is read before it is written, so
            that no run trains in vain.
    """

    def __init__(self) -> None:
        super().__init__()
        self.folders: set[Path] = set()  # that have been made: what somebody removes then stays away

    def load_checkpoint(self, path: str | Path, *arguments: Any, **options: Any) -> dict[str, Any]:
        try:
            if not Path(path).is_dir():  # which holds the shards of several ranks
                check_whole(Path(path))
            return super().load_checkpoint(path, *arguments, **options)
        except FileNotFoundError:
            raise
        except (RuntimeError, EOFError, OSError, pickle.UnpicklingError, zipfile.BadZipFile) as error:
            raise CheckpointError(
                f"{path} is damaged, or more than tensors and plain values: {brief(error)}"
            ) from error

    def save_checkpoint(self, checkpoint: dict[str, Any], path: str | Path, storage_options: Any = None) -> None:
        path = Path(path)
        content = io.BytesIO()  # torch.save tells no reason when it fails on a file
        try:
            torch.save(checkpoint, content)
            if not self.folders:
                content.seek(0)
                torch.load(content, weights_only=True, map_location="meta")  # no tensor is copied
        except (pickle.PickleError, AttributeError, TypeError) as error:
            name = re.search(r"GLOBAL (\S+)", str(error))
            raise CheckpointError(
                f"a checkpoint holds tensors and plain values only, not {name[1] if name else brief(error)}; "
                "if it is a hyperparameter, write self.save_hyperparameters(ignore=[...]) with its name"
            ) from error
        draft = path.with_name(f".{path.name}.draft")
        try:
            if path.parent not in self.folders:
                path.parent.mkdir(parents=True, exist_ok=True)
                self.folders.add(path.parent)
            with draft.open("wb") as file:
                file.write(content.getbuffer())
                file.flush()
                os.fsync(file.fileno())
            draft.replace(path)
            sync_directory(path.parent)
        except OSError as error:
            with suppress(OSError):
                draft.unlink()
            left = "; the one before is whole" if path.is_file() else ""
            raise CheckpointError(f"{path} cannot be written: {error.strerror}{left}") from error


def brief(error: BaseException) -> str:
    return str(error).partition("\n")[0].partition(". ")[0] or type(error).__name__


def sync_directory(folder: Path) -> None:
    """Have a rename survive a power cut."""
    if os.name == "posix":  # Windows opens no directories
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
