"""Checkpoints and logs of a run in the check's own directory, wherever the project has its own.

A project may look there for what to resume from, or count the versions of its logs. What it writes by itself lies where
it wants it, for as long as the run lasts.
"""

import os
import sys
import time
from collections.abc import Callable, Iterator, Set
from contextlib import ExitStack, contextmanager, suppress
from functools import wraps
from importlib.util import find_spec
from inspect import signature
from pathlib import Path
from types import FrameType
from typing import Any
from unittest.mock import patch

import torch

from training_checklist.engines import writes
from training_checklist.engines.own_code import pass_on
from training_checklist.engines.writes import (
    APPENDED,
    CHANGED,
    FOLDER,
    NEW,
    attribute,
    is_among_data,
    is_temporary,
    listen,
    listeners,
    may_be_of_a_run,
    removal_listeners,
)
from training_checklist.lightning import NAMES, ModelCheckpoint, Trainer
from training_checklist.starting.own_files import note_folder, note_growing, set_aside, write_note

NOTE = 1 << 20  # bytes: a config, metrics, what a run is called
LOCK = ".lock"  # of a file that processes hold, and that has no content
ELSEWHERE = "elsewhere"  # in the check's directory: what the project has outside of the directory of its run
FOLDERS = frozenset({"dirpath", "save_dir", "default_root_dir"})
PLACES = frozenset({"save_dir", "tracking_uri", "artifact_location"})  # arguments of loggers
ADDRESSES = ("sqlite:///", "file://", "file:")  # of what is a path behind that; others are no places of this machine
SERVERS = ("databricks", "databricks-uc")  # names that MLflow knows
MLFLOW_URI, MLFLOW_STORE = "MLFLOW_TRACKING_URI", "sqlite:///mlflow.db"  # its default from MLflow 3 on
WANDB_DATA_DIR = "WANDB_DATA_DIR"
WANDB_DIR = "WANDB_DIR"  # the variable that `wandb.init` takes for the working directory
OF_THIS_PROCESS = ("CSVLogger", "TensorBoardLogger")  # loggers that write their files themselves
before_writing: list[Callable[[], object]] = []  # before a run first writes a file where the project has its own
when_fitting: list[Callable[[], object]] = []  # as a Trainer fits, or is asked to where nothing is trained
when_placing: list[Callable[[Path], object]] = []  # as a place is asked for that is moved
_moved: dict[Path, Path] = {}  # places in the check's directory, with those that were asked for
_folders: set[Path] = set()  # those of them that the run would have made, and files may be written to besides


@contextmanager
def writing_inside(folder: Path, services_only: bool = False, here: Path | None = None) -> Iterator[None]:
    """While it is entered, every checkpoint callback, logger and Trainer that is built writes below a folder.

    What the project itself writes elsewhere is noted there, for `put_back`: by `Trainer.save_checkpoint`, in callbacks
    and loggers, and in any code but that of its data, once a Trainer fits; before that in a folder that the script has
    made for the run: such a file lies in there, or a logger, a checkpoint callback or a Trainer has its place there.

    Args:
        services_only: only loggers whose files another process writes, which may do that when this one has ended.
        here: the project's working directory, which a job may have left.
    """
    found = loggers()
    services = [kind for kind in found if kind.__name__ not in OF_THIS_PROCESS]
    places = {kind: PLACES for kind in (services if services_only else found)}
    places |= {} if services_only else {ModelCheckpoint: {"dirpath"}, Trainer: {"default_root_dir"}}
    with ExitStack() as stack:
        for kind, names in places.items():
            init = vars(kind).get("__init__")
            if init is not None and not names.isdisjoint(signature(init).parameters):
                stack.enter_context(patch.object(kind, "__init__", moved(init, names, folder)))
        stack.enter_context(patch.dict(os.environ, of_wandb(folder)))
        stack.enter_context(mlflow_inside(folder))
        writes = Writes(folder.resolve(), Path.cwd() if here is None else here)
        stack.enter_context(patch.object(Trainer, "save_checkpoint", writes.by_trainer(Trainer.save_checkpoint)))
        stack.enter_context(patch.object(Trainer, "fit", heard(Trainer.fit)))
        for module in (torch, torch.jit):
            stack.enter_context(patch.object(module, "save", writes.by_torch(module.save)))
        listen(writes.add)
        stack.callback(listeners.remove, writes.add)
        removal_listeners.append(writes.remove)
        stack.callback(removal_listeners.remove, writes.remove)
        when_fitting.append(writes.begin)
        stack.callback(when_fitting.remove, writes.begin)
        when_placing.append(writes.take)
        stack.callback(when_placing.remove, writes.take)
        stack.callback(writes.remove_empty)
        stack.callback(writes.compiled.close)
        yield


def loggers() -> list[type]:
    """Return the loggers of Lightning: of both of its packages, where the program has loaded the other one, too."""
    modules = [sys.modules[name] for name in (f"{each}.loggers" for each in NAMES) if name in sys.modules]
    return [
        value
        for module in modules
        for value in vars(module).values()
        if isinstance(value, type) and issubclass(value, module.Logger)
    ]


def of_wandb(folder: Path) -> dict[str, str]:
    """Return what lets `wandb.init`, called by the script itself, write below a folder and not here.

    What W&B is to upload, such as checkpoints, it keeps aside for all projects, and here below that folder, too.
    """
    here, aside = Path.cwd(), {WANDB_DATA_DIR: str(folder.resolve() / ".wandb")}
    if WANDB_DIR in os.environ or here.is_relative_to(folder.resolve()):
        return aside
    place = folder.resolve() / ELSEWHERE
    place.mkdir(parents=True, exist_ok=True)  # W&B takes none that is not there
    _moved[place / "wandb"] = here / "wandb"
    return {**aside, WANDB_DIR: str(place)}


@contextmanager
def mlflow_inside(folder: Path) -> Iterator[None]:
    """While it is entered, what the script itself logs by MLflow goes into a store below a folder.

    SQLite writes it, of which Python sees nothing. A store that is a server stays the project's.
    """
    mlflow = sys.modules.get("mlflow")
    if not (hasattr(mlflow, "set_tracking_uri") and hasattr(mlflow, "get_tracking_uri")):
        # It may be imported later. A part of MLflow that comes without SQLAlchemy has no databases.
        is_settled = mlflow is not None or MLFLOW_URI in os.environ
        is_settled = is_settled or find_spec("mlflow") is None or find_spec("sqlalchemy") is None
        with patch.dict(os.environ, {} if is_settled else {MLFLOW_URI: place_of(MLFLOW_STORE, folder)}):
            yield
        return
    known, inner = mlflow.get_tracking_uri(), mlflow.set_tracking_uri

    @wraps(inner)
    def set_tracking_uri(uri: str | Path, *arguments: Any, **options: Any) -> Any:
        place = place_of(uri, folder) if uri else uri
        # Of a path MLflow makes an address, which the script may take apart; of text it makes none.
        return pass_on(inner, Path(place) if isinstance(uri, Path) else place, *arguments, **options)

    inner(place_of(known, folder))
    with ExitStack() as stack:
        stack.callback(inner, known)
        for module in (mlflow, getattr(mlflow, "tracking", None)):
            if getattr(module, "set_tracking_uri", None) is inner:
                stack.enter_context(patch.object(module, "set_tracking_uri", set_tracking_uri))
        yield


class Writes:
    """What a run writes outside of its folder, each file noted before it is written for the first time.

    Attributes:
        since: when it began, in ns: a file that was written since then is none of an earlier run.
        has_begun: whether a Trainer has been asked to fit: what a script writes before that is no result.
        appended: files of before that have grown: they may still be written anew, or removed.
        early: folders that the script has made before that, and files in them.
    """

    def __init__(self, folder: Path, here: Path) -> None:
        self.folder, self.here, self.known, self.appended = folder, here, set[Path](), set[Path]()
        self.since, self.has_begun = time.time_ns(), False
        self.early: dict[Path, bool] = {}  # whether it is a folder
        self.compiled = ExitStack()

    def begin(self) -> None:
        self.has_begun = True
        self._watch_compiled()
        for place in _moved.values():
            self.take(place)
        for place in sorted(_folders):
            for made in (each for each in (*reversed(place.parents), place) if not each.exists()):
                self.known.add(made)
                note_folder(made, self.folder)
                made.mkdir()

    def by_trainer(self, save: Any) -> Any:
        """Return `Trainer.save_checkpoint` that notes its file first."""

        @wraps(save)
        def saved(trainer: Trainer, filepath: Any, *arguments: Any, **options: Any) -> None:
            path = Path(os.path.realpath(filepath))
            if trainer.is_global_zero and "://" not in str(filepath) and not self._is_known(path):
                self._note(path, NEW)
            pass_on(save, trainer, filepath, *arguments, **options)

        return saved

    def by_torch(self, save: Any) -> Any:
        """Return `torch.save`, or that of `torch.jit`, that notes its file first: Python does not see it opened."""

        @wraps(save)
        def saved(obj: Any, f: Any, *arguments: Any, **options: Any) -> None:
            self._add_unseen(f, NEW, sys._getframe(1))
            pass_on(save, obj, f, *arguments, **options)

        return saved

    def _watch_compiled(self) -> None:
        """Have files noted that OpenCV and HDF5 write, as far as the program has imported them: Python sees neither."""
        cv2, h5py = (sys.modules.get(name) for name in ("cv2", "h5py"))
        self.compiled.close()
        if hasattr(cv2, "imwrite"):
            self.compiled.enter_context(patch.object(cv2, "imwrite", self.by_compiled(cv2.imwrite)))
        if hasattr(h5py, "File"):
            self.compiled.enter_context(patch.object(h5py.File, "__init__", self.by_hdf5(h5py.File.__init__)))

    def by_compiled(self, write: Any) -> Any:
        """Return `cv2.imwrite` that notes its file first."""

        def written(filename: Any, *arguments: Any, **options: Any) -> Any:
            self._add_unseen(filename, NEW, sys._getframe(1))
            return pass_on(write, filename, *arguments, **options)

        return written

    def by_hdf5(self, init: Any) -> Any:
        """Return the constructor of `h5py.File` that notes a file first that is opened to be written."""

        @wraps(init)
        def opened(file: Any, name: Any, mode: str | None = "r", *arguments: Any, **options: Any) -> None:
            if mode not in (None, "r"):
                self._add_unseen(name, NEW if mode[0] in "wx" else CHANGED, sys._getframe(1))
            pass_on(init, file, name, mode, *arguments, **options)

        return opened

    def _add_unseen(self, name: Any, how: str, frame: FrameType) -> None:
        """Tell of what code in C++ is about to write, by its name; it may be an open file, of which Python knows."""
        for listener in [*listeners] if isinstance(name, (str, os.PathLike)) else ():
            listener(Path(os.path.realpath(name)), how, frame)

    def add(self, path: Path, how: str, frame: FrameType) -> None:
        """Note a file that is about to be written, or a folder that is made.

        Not what code of the data writes: that is of use later, where the run itself loads them.
        """
        if self._is_known(path) or path.suffix == LOCK or (how == APPENDED and path in self.appended):
            return
        if writes.unasked and not path.exists() and not is_temporary(path, self.here):
            self._note(path, how)
        # A script may keep its results beside its data, too, when it has trained.
        is_written_anew = how == NEW and path.is_file()  # what another run has left there
        may_be_result = self.has_begun or (is_written_anew and self._is_note(path))
        if not may_be_of_a_run(path, self.here, frame) or (is_among_data(path, self.here) and not may_be_result):
            return
        written = attribute(path, frame)
        if written is None:
            return
        # What grows with each run is a log, however early the script opens it.
        is_of_run = self.has_begun or is_written_anew or how == APPENDED
        is_result = written.part is not None or (written.line and is_of_run)
        if is_result or not self.known.isdisjoint(path.parents):  # a logger's thread writes into the folder it has made
            self._note(path, how)
        elif written.line and not path.exists() and (how == FOLDER or self.early.keys() & {*path.parents}):
            self.early[path] = how == FOLDER

    def take(self, place: Path) -> None:
        """Note what the script has written early, if a place or a file of the run lies in a folder that it has made."""
        made = sorted(each for each, is_folder in self.early.items() if is_folder and place.is_relative_to(each))
        for path, is_folder in sorted(self.early.items()) if made else []:  # a folder before what it holds
            if path.is_relative_to(made[0]):  # the outermost, which was not there before
                self.early.pop(path)
                paths = {"path": None, "made": [str(path)]} if is_folder else {"path": str(path), "made": []}
                write_note(self.folder, paths | {"was": None})
        self.known |= set(made[:1])

    def remove_empty(self) -> None:
        """Remove the folders that the script has made early, and in which nothing lies by now."""
        for path in sorted((each for each, is_folder in self.early.items() if is_folder), reverse=True):
            with suppress(OSError):
                path.rmdir()

    def remove(self, path: Path, frame: FrameType, is_moved: bool) -> None:
        """Note what is about to be removed, and leave something empty in its place; what is moved stays there, too."""
        if self._is_known(path) or not os.path.lexists(path):
            return
        is_folder = path.is_dir() and not path.is_symlink()
        is_new = not is_folder and path.lstat().st_mtime_ns >= self.since and path not in self.appended
        if is_new or (is_folder and not any(path.iterdir())):  # nothing of before
            return
        written = attribute(path, frame) if not is_moved and may_be_of_a_run(path, self.here, frame) else None
        if written is not None and written.line:  # whatever else lies in its folder, it was there before
            self._note(path, NEW)
        else:
            self.add(path, CHANGED if is_moved else NEW, frame)
        if not os.path.lexists(path):
            path.mkdir() if is_folder else path.touch()

    def _is_note(self, path: Path) -> bool:
        """Whether a file of before is as small as notes on a run; data that are prepared anew may be of any size."""
        return path.lstat().st_mtime_ns < self.since and path.lstat().st_size <= NOTE

    def _is_known(self, path: Path) -> bool:
        return path.is_relative_to(self.folder) or path in self.known

    def _note(self, path: Path, how: str) -> None:
        grows = how == APPENDED and path.is_file()
        (self.appended if grows else self.known).add(path)
        self.take(path)
        for wait in before_writing:
            wait()
        if how == FOLDER:
            note_folder(path, self.folder)
        elif grows:
            note_growing(path, self.folder)
        else:
            set_aside(path, self.folder, is_read=how != NEW)


def heard(fit: Any) -> Any:
    """Return `Trainer.fit` that is told to whoever waits for it."""

    @wraps(fit)
    def begin(*arguments: Any, **options: Any) -> Any:
        tell_of_fit()
        return pass_on(fit, *arguments, **options)

    return begin


def tell_of_fit() -> None:
    for hear in when_fitting:
        hear()


def moved(init: Any, names: Set[str], folder: Path) -> Any:
    """Return a constructor that takes other paths for the arguments of these names."""
    takes = signature(init)

    @wraps(init)
    def inside(*arguments: Any, **options: Any) -> None:
        try:
            bound = takes.bind(*arguments, **options)
        except TypeError:  # the constructor itself says what does not fit
            pass_on(init, *arguments, **options)
            return
        for name in names & takes.parameters.keys():
            given = bound.arguments.get(name, takes.parameters[name].default)
            if isinstance(given, (str, os.PathLike)):
                bound.arguments[name] = place = place_of(given, folder)
                asked = _moved.get(Path(place).resolve())
                _folders.update([asked] if name in FOLDERS and asked is not None else [])
            elif given is None and name == "default_root_dir":  # else the working directory
                bound.arguments[name] = folder
        pass_on(init, *bound.args, **bound.kwargs)

    return inside


def place_of(given: str | os.PathLike, folder: Path) -> str:
    """Return a path in the folder for one that may lie outside; text stays text, and an address one of its kind."""
    address = next((each for each in ADDRESSES if str(given).startswith(each)), "")
    text = os.fspath(given).removeprefix(address)
    path = Path(os.path.realpath(os.path.expanduser(text)))
    if "://" in text or text in SERVERS or path.is_relative_to(folder.resolve()):
        return os.fspath(given)
    here = Path.cwd()
    below = path.relative_to(here) if path.is_relative_to(here) else path.relative_to(path.anchor)
    place = folder / ELSEWHERE / below
    _moved[place.resolve()] = path
    for hear in when_placing:
        hear(path)
    if address:
        place.parent.mkdir(parents=True, exist_ok=True)  # SQLite makes none
    return f"{address}{place}"


def asked_for(path: Path) -> Path:
    """Return where a file would lie that lies in the check's directory because of `writing_inside`."""
    for folder in (path, *path.parents):
        if folder in _moved:
            return _moved[folder] / path.relative_to(folder)
    return path
