"""The project's files, as they were before an item whose run has written in their places.

A callback of the project's own reads and removes what it has written, by its path, so that the file cannot lie
elsewhere meanwhile. The process that started the item puts all back, however that ended.
"""

import json
import os
import shutil
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

NOTES = ".own_files"  # in the item's directory: what was written where, and the files that lay there before


def set_aside(path: Path, folder: Path, is_read: bool = False) -> None:
    """Note in an item's directory that a file is about to be written, and keep there what lies in its place.

    Args:
        is_read: whether that is to stay there, too, as what is appended to.
    """
    made = [str(each) for each in path.parents if not each.exists()]
    kept = write_note(folder, {"path": str(path), "was": state(path), "made": made})
    with suppress(FileNotFoundError):  # or another process of the item has moved it
        if not is_read:
            shutil.move(path, kept)
        elif path.is_dir() and not path.is_symlink():
            shutil.copytree(path, kept, symlinks=True)
        else:
            shutil.copy2(path, kept, follow_symlinks=False)


def note_growing(path: Path, folder: Path) -> None:
    """Note in an item's directory how long a file is that is about to be appended to, maybe by others, too."""
    write_note(folder, {"path": str(path), "was": state(path), "made": [], "grows": True})


def note_folder(path: Path, folder: Path) -> None:
    """Note in an item's directory that a folder is about to be made."""
    if not path.exists():
        write_note(folder, {"path": None, "made": [str(path)]})


def write_note(folder: Path, known: dict[str, Any]) -> Path:
    """Return where what lies in the place of the file is to be kept."""
    notes = folder / NOTES
    notes.mkdir(parents=True, exist_ok=True)
    kept = notes / str(time.time_ns())
    kept.with_suffix(".json").write_text(json.dumps(known), encoding="utf-8")
    return kept


def put_back(item: Path) -> None:
    """Remove the files that were noted in an item's directory, and give back what lay in their places."""
    notes = sorted(item.rglob(f"{NOTES}/*.json"), key=lambda note: note.name, reverse=True)
    made: set[str] = set()
    for note in notes:
        known = json.loads(note.read_text(encoding="utf-8"))
        made |= {*known["made"]}
        if known["path"] is not None:
            path = Path(known["path"])
            if "grows" in known:
                cut(path, known["was"])
            else:
                give_back(path, note.with_suffix(""), known["was"])
    # Whoever makes folders with their parents may be asked for the inner ones first.
    for folder in sorted(made, key=len, reverse=True):
        with suppress(OSError):  # it holds something else by now
            os.rmdir(folder)
    for note in notes:
        note.unlink()


def cut(path: Path, was: list[int]) -> None:
    """Take off what was appended, and leave the file to whoever else has it open."""
    with suppress(FileNotFoundError):
        if path.lstat().st_size > was[0]:
            os.truncate(path, was[0])
            os.utime(path, ns=(path.lstat().st_atime_ns, was[1]))


def give_back(path: Path, kept: Path, was: list[int] | None) -> None:
    if state(path) != was:
        with suppress(FileNotFoundError):
            # Sharded checkpoints are folders.
            shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()
        if os.path.lexists(kept):
            path.parent.mkdir(parents=True, exist_ok=True)
            shutil.move(kept, path)


def state(path: Path) -> list[int] | None:
    """Return what tells a file from one that has taken its place, or None where there is none."""
    try:
        found = path.lstat()
    except FileNotFoundError:
        return None
    return [found.st_size, found.st_mtime_ns]
