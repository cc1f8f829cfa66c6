"""Where a call comes from: the module of the network, and the line of the project's own code. The only resolver."""

import ast
import inspect
import linecache
import os
import re
import sys
from collections.abc import Iterable, Iterator
from functools import cache
from itertools import takewhile
from traceback import walk_tb
from types import CodeType, FrameType
from typing import Any

from torch import nn

from training_checklist.engines.own_code import is_of_checks, is_own, shorten
from training_checklist.engines.source_trees import source_tree
from training_checklist.finding import Place

ENGINES = ("torch", "pytorch_lightning", "lightning", "lightning_fabric", "torchmetrics", "torchvision")
COMMENT = re.compile(r"\s{2,}# .*")


class Places:
    """Names where in a network and in the project's code a call comes from.

    Args:
        root: the network that module paths start from.
    """

    def __init__(self, root: nn.Module) -> None:
        self._root = root
        self._names = {id(module): name for name, module in root.named_modules()}

    def path(self, module: nn.Module) -> str | None:
        """Return "net.head (Linear)", or None of a module that is none of the network's."""
        if id(module) not in self._names:  # it may have been added since
            self._names = {id(each): name for name, each in self._root.named_modules()}
        name = self._names.get(id(module))
        return None if name is None else named(name, module)

    def here(self, outside: CodeType | None = None) -> Place:
        """Return the innermost module at work, and the innermost line of the project's own code.

        Where no line is the project's own, as in a network that comes with a package, the package's line stands.

        Args:
            outside: code that is at work, and what it calls is not looked at.
        """
        return self._innermost(here_and_outwards(outside))

    def of_error(self, error: BaseException) -> Place:
        """Return the same of where an exception was raised."""
        return self._innermost(reversed(list(walk_tb(error.__traceback__))))

    def _innermost(self, frames: Iterable[tuple[FrameType, int]]) -> Place:
        module: str | None = None
        own = package = None
        for frame, line in frames:
            code = frame.f_code
            if module is None and code.co_argcount and code.co_varnames[0] == "self":
                worker = frame.f_locals.get("self")
                if isinstance(worker, nn.Module) and id(worker) in self._names:
                    module = named(self._names[id(worker)], worker)
            if own is None and kind(code.co_filename) == "own":
                own = frame, line
            elif package is None and kind(code.co_filename) == "package":
                package = frame, line
            if module is not None and own is not None:
                break
        found = own if own is not None else package
        return Place(module=module or "") if found is None else of_frame(found[0], module or "", found[1])


def here_and_outwards(outside: CodeType | None = None) -> Iterator[tuple[FrameType, int]]:
    """Yield the frames of the present call with their lines, the innermost first; or those that call some code."""
    frame: FrameType | None = sys._getframe(1)
    while outside is not None and frame is not None:
        outside, frame = None if frame.f_code is outside else outside, frame.f_back
    while frame is not None:
        yield frame, frame.f_lineno
        frame = frame.f_back


def own_frame() -> FrameType | None:
    """Return the innermost frame of the present call that is the project's own."""
    return next((frame for frame, _ in here_and_outwards() if kind(frame.f_code.co_filename) == "own"), None)


def own_frame_at_work() -> FrameType | None:
    """Return the frame that `own_frame` does, or None while that line imports a package, whose code does the rest."""
    for frame, _ in here_and_outwards():
        file = frame.f_code.co_filename
        is_of_project = kind(file) == "own"
        if is_of_project or file.startswith("<frozen importlib"):
            return frame if is_of_project else None
    return None


def is_in_loop() -> bool:
    """Whether a line of the project is in a loop around the present call; what calls `check` is not looked at."""
    inside = takewhile(lambda each: not is_check(each[0].f_code), here_and_outwards())
    frames = ((frame.f_code.co_filename, line) for frame, line in inside)
    return any(line in lines_in_loops(file) for file, line in frames if kind(file) == "own")


def is_check(code: CodeType) -> bool:
    return code.co_name == "check" and is_of_checks(code.co_filename)


@cache
def lines_in_loops(file: str) -> frozenset[int]:
    loops = [each for each in ast.walk(source_tree(file)) if isinstance(each, (ast.For, ast.While))]
    return frozenset(line for each in loops for line in range(each.body[0].lineno, each.end_lineno + 1))


def caller(outside: CodeType | None = None) -> str:
    """Return the file of the line that calls torch, or some code."""
    files = (frame.f_code.co_filename for frame, _ in here_and_outwards(outside))
    return next(file for file in files if is_own(file) or not is_of_checks(file))


def named(name: str, module: nn.Module) -> str:
    return f"{name} ({type(module).__name__})" if name else type(module).__name__


@cache
def kind(file: str) -> str:
    """Return whose file it is: "own", a "package" that networks may come with, or an "engine"."""
    if is_own(file):
        return "own"
    inside = shorten(file).replace("\\", "/").partition("/")[0]
    standard = file.startswith("<") or is_of_checks(file) or "/" not in shorten(file).replace("\\", "/")
    return "engine" if standard or inside in ENGINES or inside.startswith("training_") else "package"


def of_frame(frame: FrameType, module: str = "", line: int | None = None) -> Place:
    number = frame.f_lineno if line is None else line
    file = frame.f_code.co_filename
    return of_line(file, number).beside(module=module, function=frame.f_code.co_qualname)


def of_line(file: str, line: int) -> Place:
    source = COMMENT.sub("", linecache.getline(file, line).strip())
    return Place(file=short(file, os.getcwd()), line=line, source=source)


@cache
def short(file: str, seen_from: str) -> str:
    return shorten(file)


def of_function(function: Any) -> Place:
    """Return where a function, method or class is defined; an empty place of what is not written in Python."""
    function = inspect.unwrap(function)
    try:
        file, line = inspect.getsourcefile(function), inspect.getsourcelines(function)[1]
    except (TypeError, OSError):
        return Place(function=getattr(function, "__qualname__", ""))
    return Place(file=shorten(file or ""), line=line, function=function.__qualname__)


def of_hooks(pl_module: Any, hooks: Iterable[str]) -> Place:
    """Return where the project's own versions of some hooks are: the first one's line, and the names of all."""
    from training_checklist.lightning import is_overridden

    hooks = tuple(hooks)
    own = [hook for hook in hooks if is_overridden(hook, pl_module)] or [hooks[-1]]
    first = of_function(getattr(type(pl_module), own[0]))
    others = ", ".join(f"{type(pl_module).__name__}.{hook}" for hook in own[1:])
    return first.beside(note=f"or {others}" if others else "")
