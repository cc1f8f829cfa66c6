"""Which files a job writes, wherever they lie, and which code writes them.

Python tells an audit hook of every file that it opens. Files that C++ code or another process writes are seen only
by comparing the working directory before and after.
"""

import os
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import FrameType
from typing import Any

from torch.utils.data import Dataset

from training_checklist.engines.inside import asked_for
from training_checklist.engines.own_code import is_installed, is_of_checks, pass_on
from training_checklist.lightning import Callback, LightningDataModule, Logger

MANY = 20000  # entries of the working directory; beyond, it is not compared
DATA = {"data", "datasets"}
SKIPPED = {"__pycache__", "node_modules", "site-packages"}
OPENED_TO_WRITE = os.O_WRONLY | os.O_RDWR
SYSTEM = ("/dev/", "/proc/", "/sys/")


@dataclass
class Written:
    """A file that was written.

    Args:
        part: the callback or logger that wrote it, or None.
        line: "file:line" of the project's own code that wrote it, or "".
        is_new: whether it lies there now, and did not before.
    """

    path: Path
    part: Any = None
    line: str = ""
    is_new: bool = False


@dataclass
class Recording:
    """What one job writes between `start` and `stop`, data left out.

    Args:
        folder: the working directory.
        run: the run's directory.
    """

    folder: Path
    run: Path
    opened: dict[Path, Written] = field(default_factory=dict)
    before: dict[Path, tuple[int, int]] | None = None
    after: dict[Path, tuple[int, int]] | None = None

    def start(self) -> None:
        if not HOOKED:
            sys.addaudithook(hook)
            HOOKED.append(True)
        # Other runs may write beside this one meanwhile.
        inside = self.run.is_relative_to(self.folder) and self.run != self.folder
        self.skipped = self.folder / self.run.relative_to(self.folder).parts[0] if inside else self.run
        self.before = snapshot(self.folder, self.skipped)
        ACTIVE.append(self)

    def stop(self) -> None:
        if self in ACTIVE:
            ACTIVE.remove(self)
        self.after = snapshot(self.folder, self.skipped)

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
        places = {path: asked_for(path) for path in sorted(found) if path.is_file()}
        return [
            replace(found[path], path=place, is_new=found[path].is_new and place == path)
            for path, place in places.items()
            if not place.is_relative_to(self.run) and not any(place.is_relative_to(folder) for folder in data)
        ]

    def _of_logger_in(self, folder: Path) -> Written | None:
        """Return what a logger itself has written into a folder: TensorBoard's events are written by a thread."""
        found = (written for path, written in self.opened.items() if path.parent == folder)
        return next((written for written in found if isinstance(written.part, Logger)), None)

    def add(self, path: Any) -> None:
        """Note a file that the code which runs now opens to write."""
        if not isinstance(path, (str, bytes, os.PathLike)):
            return
        name = os.path.realpath(os.fsdecode(path))
        if name.startswith(SYSTEM) or name.endswith(".pyc"):
            return
        found = Path(name)
        place = asked_for(found)
        if is_temporary(place, self.folder):
            return
        inside = place.relative_to(self.folder) if place.is_relative_to(self.folder) else place
        if any(part.startswith(".") for part in inside.parts):
            return  # caches, settings
        if any(holds_data(folder) for folder in place.parents[: len(inside.parts) - 1]):
            return
        written = attribute(found)
        if written is not None:
            self.opened.setdefault(found, written)


def is_temporary(path: Path, working_directory: Path) -> bool:
    """Whether a file lies in a directory that `tempfile` has made, here or in another process: a launcher's, say."""
    temporary = Path(tempfile.gettempdir()).resolve()
    if not path.is_relative_to(temporary):
        return False
    top = temporary / path.relative_to(temporary).parts[0]
    return top.name.startswith(tempfile.gettempprefix()) and top.is_dir() and not working_directory.is_relative_to(top)


def holds_data(folder: Path) -> bool:
    """Whether a folder is for data, by its name; a package of that name is code."""
    return folder.name in DATA and not any(folder.glob("*.py"))


HOOKED: list[bool] = []  # an audit hook stays for good
ACTIVE: list[Recording] = []


def hook(event: str, arguments: tuple) -> None:
    if not ACTIVE:
        return
    try:
        if event == "open":
            path, mode, flags = arguments
            writes = set(mode or "") & set("wax+") if isinstance(mode, str) else (flags or 0) & OPENED_TO_WRITE
            if writes:
                ACTIVE[-1].add(path)
        elif event == "os.rename":
            ACTIVE[-1].add(arguments[1])
        elif event == "sqlite3.connect":
            ACTIVE[-1].add(arguments[0])
    except Exception:  # whatever an audit hook raises ends the call that it watches
        pass


def attribute(path: Path) -> Written | None:
    """Return who writes a file now, from the calls that lead here; None for data, temporary files and checks."""
    frame: FrameType | None = sys._getframe(3)
    part, line = None, ""
    while frame is not None:
        file = frame.f_code.co_filename
        if frame.f_code is pass_on.__code__:  # its caller stands in the place of what the project calls
            frame = frame.f_back and frame.f_back.f_back
            continue
        owner = frame.f_locals.get("self")
        if isinstance(owner, (LightningDataModule, Dataset)) or file.endswith("tempfile.py"):
            return None
        if part is None and isinstance(owner, (Callback, Logger)):
            part = owner
        if not line and is_of_checks(file):
            return None
        if not line and not is_installed(file):
            line = f"{file}:{frame.f_lineno}"
        frame = frame.f_back
    return Written(path, part, line, not path.exists())


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
