"""Which files a job writes, wherever they lie.

Those that C++ code or another process writes are seen only by comparing the working directory before and after.
"""

import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import wraps
from pathlib import Path
from types import FrameType
from typing import Any

from training_checklist.engines.inside import asked_for, loggers
from training_checklist.engines.own_code import is_of_checks, is_own, is_standard, pass_on
from training_checklist.engines.writes import (
    APPENDED,
    FOLDER,
    Written,
    attribute,
    holds_data,
    is_of_a_run,
    listen,
    listeners,
    own_line,
    removal_listeners,
)
from training_checklist.lightning import Logger, ModelCheckpoint, Trainer

MANY = 20000  # entries of the working directory; beyond, it is not compared
SKIPPED = {"__pycache__", "node_modules", "site-packages"}


@dataclass
class Recording:
    """What one job writes between `start` and `stop`, data left out.

    Args:
        folder: the working directory.
        run: the run's directory.
        began: when.
        built: by the name of a class, "file:line" of the project's code that has built one, "" where a library has.
    """

    folder: Path
    run: Path
    opened: dict[Path, Written] = field(default_factory=dict)
    removed: dict[Path, str] = field(default_factory=dict)  # inside the run's directory, with the line that does it
    before: dict[Path, tuple[int, int]] | None = None
    after: dict[Path, tuple[int, int]] | None = None
    began: datetime = field(default_factory=datetime.now)
    built: dict[str, list[str]] = field(default_factory=dict)
    watched: list[tuple[type, Any, Any]] = field(default_factory=list)

    def start(self) -> None:
        # Other runs may write beside this one meanwhile.
        inside = self.run.is_relative_to(self.folder) and self.run != self.folder
        self.skipped = self.folder / self.run.relative_to(self.folder).parts[0] if inside else self.run
        self.before = snapshot(self.folder, self.skipped)
        for kind in (Trainer, ModelCheckpoint, *loggers()):
            if "__init__" in vars(kind):
                self.watched.append((kind, kind.__init__, self._noted(kind.__init__)))
                kind.__init__ = self.watched[-1][2]
        listen(self.add)
        removal_listeners.append(self.note_removed)

    def stop(self) -> None:
        if self.add in listeners:
            listeners.remove(self.add)
            removal_listeners.remove(self.note_removed)
        for kind, init, noted in self.watched:
            if kind.__init__ is noted:  # what was put there earlier may be gone already, and this with it
                kind.__init__ = init
        self.after = snapshot(self.folder, self.skipped)

    def _noted(self, init: Any) -> Any:
        """Return a constructor that notes who calls it."""

        @wraps(init)
        def inside(part: Any, *arguments: Any, **options: Any) -> None:
            self.built.setdefault(type(part).__name__, []).append(builder(sys._getframe(1), part))
            pass_on(init, part, *arguments, **options)

        return inside

    def outside(self, data: list[Path]) -> list[Written]:
        """Return the files outside the run's directory, and outside the folders that hold data.

        What a check has had written elsewhere counts for where it would lie.
        """
        found = dict(self.opened)
        if self.before is not None and self.after is not None:
            for path, state in self.after.items():
                if path not in found and changed(self.before.get(path), state):
                    found[path] = Written(path, is_new=path not in self.before)
        for path, written in found.items():
            if written.part is None and not written.line:
                found[path] = replace(self._of_logger_in(path.parent) or written, path=path, is_new=written.is_new)
        # A link, as W&B's to its newest run, has no content that another run could overwrite.
        places = {path: asked_for(path) for path in sorted(found) if path.is_file() and not path.is_symlink()}
        return [
            replace(found[path], path=place, is_new=found[path].is_new and place == path)
            for path, place in places.items()
            if not place.is_relative_to(self.run) and not any(place.is_relative_to(folder) for folder in data)
        ]

    def _of_logger_in(self, folder: Path) -> Written | None:
        """Return what a logger itself has written into a folder: TensorBoard's events are written by a thread."""
        found = (written for path, written in self.opened.items() if path.parent == folder)
        return next((written for written in found if isinstance(written.part, Logger)), None)

    def note_removed(self, path: Path, frame: FrameType, is_moved: bool) -> None:
        """Note what the project's own code takes out of the run's directory again."""
        path = path.resolve()
        line = own_line(frame) if path.is_relative_to(self.run) else ""
        if line:
            self.removed.setdefault(path, line)

    def has_removed(self, path: Path) -> bool:
        """Whether the project's own code has removed a file, or a folder above it."""
        return not self.removed.keys().isdisjoint((path.resolve(), *path.resolve().parents))

    def add(self, path: Path, how: str, frame: FrameType) -> None:
        """Note a file that is about to be written."""
        if how == FOLDER:
            return
        written = attribute(path, frame) if is_of_a_run(asked_for(path), self.folder) else None
        if written is not None:
            self.opened.setdefault(path, replace(written, is_appended=how == APPENDED))


def builder(frame: FrameType | None, part: Any) -> str:
    """Return "file:line" of the project's code that builds something, at a frame; "" where a library does."""
    while frame is not None:
        file = frame.f_code.co_filename
        if not (is_standard(file) or is_of_checks(file) or part is frame.f_locals.get("self")):
            return f"{file}:{frame.f_lineno}" if is_own(file) else ""
        frame = frame.f_back
    return ""


def changed(before: tuple[int, int] | None, after: tuple[int, int]) -> bool:
    """Whether a file is new or was written anew; one that was there and grew is a log that others have open.

    Such as the one that this process's output is redirected to, by its shell or by a tee beside it.
    """
    return before != after and (before is None or after[1] <= before[1])


def snapshot(folder: Path, skipped: Path) -> dict[Path, tuple[int, int]] | None:
    """Return (time of change, bytes) of the files below a folder, or None where there are too many."""
    found: dict[Path, tuple[int, int]] = {}
    for count, path in enumerate(files(folder, skipped)):
        if count > MANY:
            return None
        try:
            state = path.stat()
        except OSError:
            continue
        found[path] = (state.st_mtime_ns, state.st_size)
    return found


def files(folder: Path, skipped: Path) -> Iterator[Path]:
    """Yield the files below a folder, not going into hidden folders, environments, data and what is installed."""
    for parent, folders, names in os.walk(folder):
        own = Path(parent)
        if "pyvenv.cfg" in names:
            folders.clear()
            continue
        folders[:] = [
            name
            for name in folders
            if name not in SKIPPED and name[0] != "." and own / name != skipped and not holds_data(own / name)
        ]
        yield from (own / name for name in names if name[0] != "." and not name.endswith(".pyc"))
