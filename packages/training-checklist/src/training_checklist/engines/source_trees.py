"""The code of files as Python's syntax trees, as their modules were loaded, a notebook's cells included."""

import ast
import inspect
import linecache
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from textwrap import dedent
from typing import Any

from training_checklist.engines.own_code import is_own_class


@cache
def source_tree(file: str) -> ast.Module:
    """Return the tree of a file; an empty one where there is none."""
    try:
        return ast.parse("".join(linecache.getlines(str(Path(file).absolute()))))
    except (SyntaxError, ValueError):
        return ast.Module([], [])


def tree_of(thing: Any) -> ast.Module:
    """Return the tree of a class or function alone; an empty one where its source is not known."""
    try:
        return ast.parse(dedent(inspect.getsource(inspect.unwrap(thing))))
    except (TypeError, OSError, SyntaxError):  # made in a notebook or by exec, or written among parts of a line
        return ast.Module([], [])


def reached(owner: Any, *names: str) -> Iterator[Callable[..., Any]]:
    """Yield the methods of these names that are the project's own, and those of the same object that they call."""
    waiting, seen = [*names], set()
    while waiting:
        name = waiting.pop()
        base = next((base for base in type(owner).__mro__ if name in vars(base)), object)
        function = vars(base).get(name)
        if name in seen or not inspect.isfunction(function) or not is_own_class(base):
            continue
        seen.add(name)
        yield function
        waiting += of_self(function)


def of_self(function: Callable[..., Any]) -> list[str]:
    """Return the names of the attributes of `self` that a function names, methods that it calls among them."""
    nodes = [node for node in ast.walk(tree_of(function)) if isinstance(node, ast.Attribute)]
    return [node.attr for node in nodes if isinstance(node.value, ast.Name) and node.value.id == "self"]
