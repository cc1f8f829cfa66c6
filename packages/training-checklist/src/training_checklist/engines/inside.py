"""Checkpoints and logs of a run in the check's own directory, wherever the project has its own.

A project may look there for what to resume from, or count the versions of its logs.
"""

import os
from collections.abc import Callable, Iterator, Set
from contextlib import ExitStack, contextmanager
from functools import wraps
from inspect import signature
from pathlib import Path
from typing import Any
from unittest.mock import patch

from training_checklist.engines.own_code import pass_on
from training_checklist.lightning import Logger, ModelCheckpoint, Trainer, part
from training_checklist.starting.own_checkpoints import set_aside

ELSEWHERE = "elsewhere"  # in the check's directory: what the project has outside of the directory of its run
PLACES = frozenset({"save_dir", "tracking_uri", "artifact_location"})  # arguments of loggers
ADDRESSES = ("sqlite:///", "file://", "file:")  # of what is a path behind that; others are no places of this machine
SERVERS = ("databricks", "databricks-uc")  # names that MLflow knows
OF_THIS_PROCESS = ("CSVLogger", "TensorBoardLogger")  # loggers that write their files themselves
before_saving: list[Callable[[], object]] = []  # before a run first saves a checkpoint where the project has its own
_moved: dict[Path, Path] = {}  # places in the check's directory, with those that were asked for


@contextmanager
def writing_inside(folder: Path, services_only: bool = False) -> Iterator[None]:
    """While it is entered, every checkpoint callback, logger and Trainer that is built writes below a folder.

    What the project saves elsewhere by `Trainer.save_checkpoint` is noted there, for `put_back`.

    Args:
        services_only: only loggers whose files another process writes, which may do that when this one has ended.
    """
    found = [value for value in vars(part("loggers")).values() if isinstance(value, type) and issubclass(value, Logger)]
    services = [kind for kind in found if kind.__name__ not in OF_THIS_PROCESS]
    places = {kind: PLACES for kind in (services if services_only else found)}
    places |= {} if services_only else {ModelCheckpoint: {"dirpath"}, Trainer: {"default_root_dir"}}
    with ExitStack() as stack:
        for kind, names in places.items():
            init = vars(kind).get("__init__")
            if init is not None and not names.isdisjoint(signature(init).parameters):
                stack.enter_context(patch.object(kind, "__init__", moved(init, names, folder)))
        stack.enter_context(patch.object(Trainer, "save_checkpoint", noted(Trainer.save_checkpoint, folder.resolve())))
        yield


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
                bound.arguments[name] = place_of(given, folder)
            elif given is None and name == "default_root_dir":  # else the working directory
                bound.arguments[name] = folder
        pass_on(init, *bound.args, **bound.kwargs)

    return inside


def noted(save: Any, folder: Path) -> Any:
    """Return `Trainer.save_checkpoint` that first notes, once, a path outside of a folder."""
    known: set[Path] = set()

    @wraps(save)
    def saved(trainer: Trainer, filepath: Any, *arguments: Any, **options: Any) -> None:
        path = Path(os.path.realpath(filepath))
        outside = "://" not in str(filepath) and not path.is_relative_to(folder) and path not in known
        if outside and trainer.is_global_zero:
            known.add(path)
            for wait in before_saving:
                wait()
            set_aside(path, folder)
        pass_on(save, trainer, filepath, *arguments, **options)

    return saved


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
    if address:
        place.parent.mkdir(parents=True, exist_ok=True)  # SQLite makes none
    return f"{address}{place}"


def asked_for(path: Path) -> Path:
    """Return where a file would lie that lies in the check's directory because of `writing_inside`."""
    for folder in (path, *path.parents):
        if folder in _moved:
            return _moved[folder] / path.relative_to(folder)
    return path
