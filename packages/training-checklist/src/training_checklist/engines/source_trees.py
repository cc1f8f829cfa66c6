"""The code of files as Python's syntax trees, as their modules were loaded, a notebook's cells included."""

import ast
import linecache
from functools import cache
from pathlib import Path


@cache
def source_tree(file: str) -> ast.Module:
    """Return the tree of a file; an empty one where there is none."""
    try:
        return ast.parse("".join(linecache.getlines(str(Path(file).absolute()))))
    except (SyntaxError, ValueError):
        return ast.Module([], [])
