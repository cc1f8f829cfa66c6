"""Which files are the project's own code, and how they are shown.

Not its own are libraries, Python's own modules, and what comes with the project beside its code: these checks and the
packages that they share a template with, which are not always where pip puts things.
"""

import os
import signal
import sys
import sysconfig
import traceback
from collections.abc import Callable, Iterable
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from types import FrameType
from typing import Any

# A library is where pip or the system put it, which is not always in the environment that runs: one may see another's.
INSTALLED = {"site-packages", "dist-packages"}
CYTHON = (".pyx", ".pxi", ".pxd")
SIGNALS = "signal_connector.py"  # where Lightning handles a signal, amid whatever runs when it comes
STANDARD_LIBRARY = tuple(f"{sysconfig.get_path(kind)}{os.sep}" for kind in ("stdlib", "platstdlib"))


def folders(*packages: str) -> tuple[str, ...]:
    specs = (find_spec(name) for name in packages)
    return tuple(f"{folder}{os.sep}" for spec in specs if spec for folder in spec.submodule_search_locations or ())


CHECKS = folders("training_checklist")
BESIDE = folders("training_checklist", "training_config", "training_runs")
EXAMPLES: set[str] = set()  # files of this package that hold an example which is at work: there it is the project


@cache
def is_installed(file: str) -> bool:
    """Whether a file is a library's or Python's."""
    known = ("<", *STANDARD_LIBRARY, *installed_into(tuple(sys.path)))
    if file.startswith(known) or not INSTALLED.isdisjoint(Path(file).parts):
        return True
    return file.endswith(CYTHON) and not os.path.exists(file)  # they were somebody else's when he compiled them


@cache
def installed_into(folders: tuple[str, ...]) -> tuple[str, ...]:
    """Return those of some folders that pip has put distributions into, as `--target` lets it."""
    elsewhere = (Path(folder) for folder in folders if folder and Path(folder) != Path.cwd())
    return tuple(f"{folder}{os.sep}" for folder in elsewhere if any(folder.glob("*.dist-info")))


def is_standard(file: str) -> bool:
    """Whether a file is of Python's own modules."""
    return file.startswith(("<", *STANDARD_LIBRARY)) and INSTALLED.isdisjoint(Path(file).parts)


def is_own(file: str) -> bool:
    """Whether a file is the project's."""
    return file in EXAMPLES or (not is_installed(file) and not file.startswith(BESIDE))


def is_own_class(kind: type) -> bool:
    """Whether a class is written in one of the project's files."""
    file = getattr(sys.modules.get(kind.__module__), "__file__", None)
    return isinstance(file, str) and is_own(file)


def own_kinds(things: Iterable[Any]) -> set[type]:
    """Return the project's own classes that some things are of, those that they derive from among them."""
    return {kind for each in {type(thing) for thing in things} for kind in each.__mro__ if is_own_class(kind)}


def is_of_checks(file: str) -> bool:
    """Whether a file is of this package."""
    return file.startswith(CHECKS)


def shorten(file: str | Path) -> str:
    """Return a path as seen from the working directory, or from the folder of libraries that it lies in."""
    path = Path(file)
    libraries = (folder for folder in sys.path if not INSTALLED.isdisjoint(Path(folder).parts))
    inside = (Path.cwd(), *libraries, *STANDARD_LIBRARY)
    folder = next((folder for folder in inside if path.is_relative_to(folder)), None)
    return str(path if folder is None else path.relative_to(folder))


def pass_on(function: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
    """Call what the run itself would have called here; what it raises is not this package's doing."""
    return function(*arguments, **options)


def is_tool_error(error: BaseException) -> bool:
    """Whether an exception was raised by this package, or by what it did of its own accord.

    Code of the project that the run would have called anyway goes through `pass_on`; what is called otherwise (a step
    that is replayed, a batch that is fetched again) must not raise into the run, so that is a mistake of ours too.
    A signal may come while this package runs: what its handler raises is not ours.
    """
    chain = back_to_root(error)
    handlers = {getattr(signal.getsignal(number), "__code__", None) for number in signal.valid_signals()}
    codes = {frame.f_code for link in chain for frame in frames_of(link)}
    if not codes.isdisjoint(handlers) or any(code.co_filename.endswith(SIGNALS) for code in codes):
        return False
    ours = [frame for frame in frames_of(chain[-1]) if is_of_checks(frame.f_code.co_filename)]
    return bool(ours) and ours[-1].f_code is not pass_on.__code__


def failed_module(error: BaseException) -> str:
    """Return the module of this package in which a tool error arose."""
    frames = reversed(frames_of(back_to_root(error)[-1]))
    return next(str(frame.f_globals["__name__"]) for frame in frames if is_of_checks(frame.f_code.co_filename))


def back_to_root(error: BaseException) -> list[BaseException]:
    """Return an exception and those that it goes back to, the first of them last."""
    chain = [error]
    while (earlier := chain[-1].__cause__ or chain[-1].__context__) is not None and earlier not in chain:
        chain.append(earlier)
    return chain


def frames_of(error: BaseException) -> list[FrameType]:
    """Return the frames in an exception's traceback, the innermost last."""
    return [frame for frame, _ in traceback.walk_tb(error.__traceback__)]


def last_frames(error: BaseException) -> str:
    """Return where an exception was raised, for a report of a tool error."""
    return "".join(traceback.format_tb(error.__traceback__)[-3:]).rstrip()
