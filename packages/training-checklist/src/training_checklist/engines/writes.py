"""Files that this process opens to write, and which code writes them: Python tells an audit hook of each."""

import os
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any

from torch.utils.data import Dataset

from training_checklist import lightning
from training_checklist.engines.own_code import is_installed, is_of_checks, is_own, is_standard, pass_on
from training_checklist.lightning import LightningDataModule, LightningModule

DATA = {"data", "datasets"}
DATA_HOOKS = {"prepare_data", "setup", *(f"{part}_dataloader" for part in ("train", "val", "test", "predict"))}
OPENED_TO_WRITE = os.O_WRONLY | os.O_RDWR
DOOR = str(Path(__file__).parents[1] / "python_call.py")  # of scripts without Hydra
SYSTEM = ("/dev/", "/proc/", "/sys/")
REMOVALS = ("os.remove", "os.rmdir", "shutil.rmtree")
NAMES = ("os.rename", "os.link", "os.symlink")  # the second argument is a name that is given, whatever had it before
TEMPORARY = ("tempfile.mkdtemp", "tempfile.mkstemp")  # each time with a name that nothing has had
EMPTIES = os.O_TRUNC | os.O_EXCL
NEW, CHANGED, APPENDED, FOLDER = "new", "changed", "appended", "folder"  # how a file is written
PATHS = (str, bytes, os.PathLike)  # as Python's functions take them; else it is the number of an open file

# Called before a file is written or a folder made, with its path, how, and the frame that asks for it.
Listener = Callable[[Path, str, FrameType], object]
listeners: list[Listener] = []
# Called before a file or a folder is removed, and with True before it gets another name.
RemovalListener = Callable[[Path, FrameType, bool], object]
removal_listeners: list[RemovalListener] = []
_temporary: set[Path] = set()  # what `tempfile` has made here, by whatever name
_hooked: list[bool] = []  # an audit hook stays for good
unasked = False  # whether data are being loaded for a look alone, which the run itself may never load


@dataclass
class Written:
    """A file that was written.

    Args:
        part: the callback or logger that wrote it, or None.
        line: "file:line" of the project's own code that wrote it, or "".
        is_new: whether it lies there now, and did not before.
        is_appended: whether it was opened to write at its end.
    """

    path: Path
    part: Any = None
    line: str = ""
    is_new: bool = False
    is_appended: bool = False


def listen(listener: Listener) -> None:
    """Have a function called until it is taken out of `listeners`; those of removals are called from here on, too."""
    if not _hooked:
        sys.addaudithook(_hook)
        _hooked.append(True)
    listeners.append(listener)


def _hook(event: str, arguments: tuple) -> None:
    if not listeners and not removal_listeners:
        return
    try:
        if event in REMOVALS:
            path, folder = arguments
            if isinstance(path, PATHS) and folder in (None, -1):  # else it is of a folder being removed
                tell_of_removal(path, sys._getframe(1), False)
            return
        if event in TEMPORARY:
            _temporary.add(Path(os.path.realpath(os.fsdecode(arguments[0]))))
            return
        if event == "open":
            path, mode, flags = arguments
            by_mode, flags = isinstance(mode, str), flags or 0
            writes = set(mode) & set("wax+") if by_mode else flags & OPENED_TO_WRITE
            if ("x" in mode if by_mode else flags & os.O_EXCL) and os.path.exists(path):
                return  # it will not be opened
            begins_empty = set(mode) & set("wx") if by_mode else flags & EMPTIES
            appends = "a" in mode if by_mode else flags & os.O_APPEND
            how = NEW if begins_empty else APPENDED if appends else CHANGED
        elif event in NAMES:
            path, writes, how = arguments[1], True, NEW
            if event == "os.rename":
                tell_of_removal(arguments[0], sys._getframe(1), True)
        elif event == "sqlite3.connect":
            path, writes, how = arguments[0], True, CHANGED
        elif event == "os.mkdir":
            path, writes, how = arguments[0], True, FOLDER
        else:
            return
        if writes and isinstance(path, PATHS):
            name = str(named(path)) if event in NAMES else os.path.realpath(os.fsdecode(path))
            if not name.startswith(SYSTEM) and not name.endswith(".pyc"):
                for listener in list(listeners):
                    listener(Path(name), how, sys._getframe(1))
    except Exception:  # whatever an audit hook raises ends the call that it watches
        pass


def tell_of_removal(path: str | bytes | os.PathLike, frame: FrameType, is_moved: bool) -> None:
    for listener in list(removal_listeners):
        listener(named(path), frame, is_moved)


def named(path: str | bytes | os.PathLike) -> Path:
    """Return the whole name of what may be a link, and is not followed."""
    folder, name = os.path.split(os.path.abspath(os.fsdecode(path)))
    return Path(os.path.realpath(folder), name)


def is_of_a_run(place: Path, working_directory: Path) -> bool:
    """Whether what lies in a place may be what a run leaves: no cache, no setting, nothing temporary, no data."""
    return may_be_of_a_run(place, working_directory) and not is_among_data(place, working_directory)


def may_be_of_a_run(place: Path, working_directory: Path, frame: FrameType | None = None) -> bool:
    """Whether a place is for what lasts, be it data, and is seen: or hidden by the project's own code, at a frame."""
    is_hidden = any(part.startswith(".") for part in inside(place, working_directory).parts)
    return (not is_hidden or bool(own_line(frame))) and not is_temporary(place, working_directory)


def is_among_data(place: Path, working_directory: Path) -> bool:
    return any(map(holds_data, place.parents[: len(inside(place, working_directory).parts) - 1]))


def inside(place: Path, working_directory: Path) -> Path:
    return place.relative_to(working_directory) if place.is_relative_to(working_directory) else place


def is_temporary(path: Path, working_directory: Path) -> bool:
    """Whether a file lies in a directory that `tempfile` has made, here or in another process: a launcher's, say."""
    if not _temporary.isdisjoint((path, *path.parents)):
        return True
    temporary = Path(tempfile.gettempdir()).resolve()
    if not path.is_relative_to(temporary):
        return False
    top = temporary / path.relative_to(temporary).parts[0]
    return top.name.startswith(tempfile.gettempprefix()) and top.is_dir() and not working_directory.is_relative_to(top)


def holds_data(folder: Path) -> bool:
    """Whether a folder is for data, by its name; a package of that name is code."""
    return folder.name in DATA and not any(folder.glob("*.py"))


def own_line(frame: FrameType | None) -> str:
    """Return "file:line" of the project's own code that writes or removes something itself, "" where a library does."""
    while frame is not None and is_standard(frame.f_code.co_filename):
        frame = frame.f_back
    is_told = frame is not None and is_own(frame.f_code.co_filename)
    return f"{frame.f_code.co_filename}:{frame.f_lineno}" if is_told else ""


def kinds_of_parts() -> tuple[type, ...]:
    """Return the classes of callbacks and loggers of both of Lightning's packages, as far as they are loaded."""
    names = ((f"{package}.{part}s", part.title()) for package in lightning.NAMES for part in ("callback", "logger"))
    found = (getattr(sys.modules.get(module), name, None) for module, name in names)
    return tuple(kind for kind in found if kind is not None)


def attribute(path: Path, frame: FrameType | None) -> Written | None:
    """Return who writes a file, from the calls that lead to a frame; None for data, temporary files and checks."""
    part, line, kinds = None, "", kinds_of_parts()
    while frame is not None:
        file = frame.f_code.co_filename
        if frame.f_code is pass_on.__code__:  # its caller stands in the place of what the project calls
            frame = frame.f_back and frame.f_back.f_back
            continue
        owner = frame.f_locals.get("self")
        of_data = isinstance(owner, (LightningDataModule, Dataset))
        of_data |= isinstance(owner, LightningModule) and frame.f_code.co_name in DATA_HOOKS
        if of_data or file.endswith("tempfile.py"):
            return None
        if part is None and isinstance(owner, kinds):
            part = owner
        if not line and is_of_checks(file):
            if part is None or file != DOOR:
                return None
            break  # who calls `check` has given it the part
        if not line and not is_installed(file):
            line = f"{file}:{frame.f_lineno}"
        frame = frame.f_back
    return Written(path, part, line, not path.exists())
