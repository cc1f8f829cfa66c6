"""Checkpoints and logs of a run in the check's own directory, wherever the project has its own.

A project may look there for what to resume from, or count the versions of its logs.
"""

import os
from collections.abc import Iterator
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
OF_THIS_PROCESS = ("CSVLogger", "TensorBoardLogger")  # loggers that write their files themselves
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
    places = dict.fromkeys(services if services_only else found, "save_dir")
    places |= {} if services_only else {ModelCheckpoint: "dirpath", Trainer: "default_root_dir"}
    with ExitStack() as stack:
        for kind, name in places.items():
            init = vars(kind).get("__init__")
            if init is not None and name in signature(init).parameters:
                stack.enter_context(patch.object(kind, "__init__", moved(init, name, folder)))
        stack.enter_context(patch.object(Trainer, "save_checkpoint", noted(Trainer.save_checkpoint, folder.resolve())))
        yield


def moved(init: Any, name: str, folder: Path) -> Any:
    """Return a constructor that takes another path for the argument of this name."""
    takes = signature(init)

    @wraps(init)
    def inside(*arguments: Any, **options: Any) -> None:
        try:
            bound = takes.bind(*arguments, **options).arguments
        except TypeError:  # the constructor itself says what does not fit
            bound = {}
        given = bound.get(name)
        if given is None and name == "default_root_dir":  # else the working directory
            options[name] = folder
        elif isinstance(given, (str, os.PathLike)) and "://" not in str(given):
            if name in options:
                options[name] = place_of(given, folder)
            else:
                index = list(takes.parameters).index(name)
                arguments = (*arguments[:index], place_of(given, folder), *arguments[index + 1 :])
        pass_on(init, *arguments, **options)

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
            set_aside(path, folder)
        pass_on(save, trainer, filepath, *arguments, **options)

    return saved


def place_of(given: str | os.PathLike, folder: Path) -> str:
    """Return a path in the folder for one that may lie outside; text stays text."""
    path = Path(os.path.realpath(os.path.expanduser(given)))
    if path.is_relative_to(folder.resolve()):
        return os.fspath(given)
    here = Path.cwd()
    below = path.relative_to(here) if path.is_relative_to(here) else path.relative_to(path.anchor)
    _moved[(folder / ELSEWHERE / below).resolve()] = path
    return str(folder / ELSEWHERE / below)


def asked_for(path: Path) -> Path:
    """Return where a file would lie that lies in the check's directory because of `writing_inside`."""
    for folder in (path, *path.parents):
        if folder in _moved:
            return _moved[folder] / path.relative_to(folder)
    return path
