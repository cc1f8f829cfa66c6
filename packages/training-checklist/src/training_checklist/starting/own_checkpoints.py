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
    known = {"path": str(path), "was": state(path), "made": [str(each) for each in path.parents if not each.exists()]}
    (notes / f"{name}.json").write_text(json.dumps(known), encoding="utf-8")
    with suppress(FileNotFoundError):  # or another process of the item has moved it
        shutil.move(path, notes / name)


def put_back(item: Path) -> None:
    """Remove the checkpoints that were noted in an item's directory, and give back what lay in their places."""
    for note in sorted(item.rglob(f"{NOTES}/*.json"), key=lambda note: note.name, reverse=True):
        known = json.loads(note.read_text(encoding="utf-8"))
        path, kept = Path(known["path"]), note.with_suffix("")
        if state(path) != known["was"]:
            with suppress(FileNotFoundError):
                shutil.rmtree(path) if path.is_dir() else path.unlink()  # sharded ones are folders
            if kept.exists():
                path.parent.mkdir(parents=True, exist_ok=True)
                shutil.move(kept, path)
        for folder in known["made"]:
            with suppress(OSError):  # it holds something else by now
                os.rmdir(folder)
        note.unlink()


def state(path: Path) -> list[int] | None:
    """Return what tells a file from one that has taken its place, or None where there is none."""
    try:
        found = path.stat()
    except FileNotFoundError:
        return None
    return [found.st_size, found.st_mtime_ns]
