"""Which function of the project takes most of the time of some code, and how much of it a library takes."""

import cProfile
import pstats
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

from training_checklist.engines.own_code import is_own, shorten
from training_checklist.finding import NOWHERE, Place

BUILT_IN = "~"  # in place of a file
NEXT = "<built-in method builtins.next>"
MOST = 0.5  # of the time: what a single function is to blame for


def profiled(calls: Iterable[Callable[[], Any]]) -> dict[Any, Any]:
    """Return what cProfile knows of some calls, by function."""
    profiler = cProfile.Profile()
    for call in calls:
        with suppress(Exception):  # of a sample that the run does not have
            profiler.runcall(call)
    return pstats.Stats(profiler).stats if profiler.getstats() else {}


def share_in(library: str, known: dict[Any, Any]) -> tuple[float, Place]:
    """Return the share of the time that calls from the project into a library take, and where most of them are."""
    whole = max((spent for _, _, _, spent, _ in known.values()), default=0.0)
    by: dict[Any, float] = {}
    for (file, _, _), (_, _, _, _, callers) in known.items():
        if f"/{library}/" in file.replace("\\", "/"):
            for caller, (_, _, _, spent) in callers.items():
                if is_own(caller[0]):
                    by[caller] = by.get(caller, 0.0) + spent
    if not by or not whole:
        return 0.0, NOWHERE
    file, line, function = max(by, key=by.__getitem__)
    return min(sum(by.values()) / whole, 1.0), Place(file=shorten(file), line=line, function=function)


def slowest(known: dict[Any, Any]) -> Place:
    """Return the innermost function of the project in which most of the time of some calls goes.

    Its note is what it calls for most of that time, "" where it computes itself.
    """
    whole = max((spent for _, _, _, spent, _ in known.values()), default=0.0)
    # A comprehension is told by the function that it stands in.
    functions = (name for name in known if name[2][:1] != "<" and name[0] != BUILT_IN and is_own(name[0]))
    own = {name: known[name][3] for name in functions if known[name][3] > MOST * whole}
    if not own:
        return NOWHERE
    inner = min(own, key=own.__getitem__)
    called = {name: each[4][inner][3] for name, each in known.items() if inner in each[4]}
    most = max(called, key=called.__getitem__, default=None)
    if most is not None and most[2] == NEXT:  # of a generator, which is what takes the time
        made = {name: each[4][most][3] for name, each in known.items() if most in each[4]}
        most = max(made, key=made.__getitem__, default=most)
        called[most] = made.get(most, 0.0)
    note = "" if most is None or called[most] < MOST * own[inner] else title_of(most)
    return Place(file=shorten(inner[0]), line=inner[1], function=inner[2], note=note)


def title_of(function: tuple[str, int, str]) -> str:
    """Return what a reader calls a function that cProfile knows by file, line and name; "" of a comprehension."""
    file, _, name = function
    if file == BUILT_IN:
        return name.strip("<>").removeprefix("built-in method ")
    if name.startswith("<"):
        return ""
    return f"{Path(file).parent.name}.{name}" if Path(file).stem == "__init__" else f"{Path(file).stem}.{name}"
