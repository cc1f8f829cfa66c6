"""The code of files as Python's syntax trees, as their modules were loaded, a notebook's cells included."""

import ast
import inspect
import linecache
from functools import cache
from pathlib import Path
from textwrap import dedent
from typing import Any


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
