"""The project's checkpoints, as they were before an item whose callbacks have saved some in their places.

A callback of the project's own calls `Trainer.save_checkpoint` with a path that it also reads and removes, so that the
file cannot lie elsewhere meanwhile. The process that started the item puts all back, however that ended.
"""

import json
import os
import shutil
import time
from contextlib import suppress
from pathlib import Path

NOTES = ".own_checkpoints"  # in the item's directory: what was saved where, and the files that lay there before


def set_aside(path: Path, folder: Path) -> None:
    """Note in an item's directory that a checkpoint is about to be saved, and keep there what lies in its place."""
    notes = folder / NOTES
    notes.mkdir(parents=True, exist_ok=True)
    name = str(time.time_ns())
    made = [str(parent) for parent in path.parents if not parent.exists()]
    (notes / f"{name}.json").write_text(json.dumps({"path": str(path), "folders": made}), encoding="utf-8")
    if path.exists():
        shutil.move(path, notes / name)


def put_back(folder: Path) -> None:
    """Remove the checkpoints that were noted in an item's directory, and give back what lay in their places."""
    for note in sorted(folder.rglob(f"{NOTES}/*.json"), key=lambda note: note.name, reverse=True):
        known = json.loads(note.read_text(encoding="utf-8"))
        path, kept = Path(known["path"]), note.with_suffix("")
        with suppress(FileNotFoundError):
            shutil.rmtree(path) if path.is_dir() else path.unlink()  # sharded ones are folders
        if kept.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            shutil.move(kept, path)
        for made in known["folders"]:
            with suppress(OSError):  # it holds something else by now
                os.rmdir(made)
