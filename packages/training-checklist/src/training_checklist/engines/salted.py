"""Lines of the project's code that nothing fixes: hash() of a text, the order of a set or of a folder's files."""

import ast
from collections.abc import Collection, Iterator
from pathlib import Path

from training_checklist.engines.own_code import is_own, shorten
from training_checklist.finding import Place

LISTS = {"listdir", "scandir", "iterdir", "glob", "rglob", "iglob", "walk"}  # functions and methods that list folders
# Functions and methods to which the order of what they get makes no difference.
UNORDERED = {"sorted", "set", "frozenset", "len", "sum", "min", "max", "any", "all", "isinstance", "bool", "Counter"}
UNORDERED |= {"union", "update", "intersection", "difference", "symmetric_difference", "issubset", "issuperset"}
UNORDERED |= {"isdisjoint", "intersection_update", "difference_update", "assertEqual", "print", "repr", "str"}


def salted(files: list[Path], listed: Collection[tuple[str, int]] = ()) -> list[Place]:
    """Return the lines of the project's own files that use what Python salts anew in each process, or list folders.

    Args:
        listed: file and line of what has listed a folder; what sorts the files at once is left out.
    """
    found, orders = [], []
    for path in files:
        try:
            text = path.read_text(encoding="utf-8")
            tree = ast.parse(text)
        except (SyntaxError, ValueError, OSError):
            continue
        lines = text.splitlines()
        if not is_own(str(path)):
            continue
        listing = {line for file, executed in listed if file == str(path) for line in listing_lines(tree, executed)}
        for places, numbers in ((found, set(salted_lines(tree))), (orders, listing)):
            places += [Place(file=shorten(path), line=each, source=lines[each - 1].strip()) for each in sorted(numbers)]
    return orders + found  # a listing has been executed; whether the others have is not known


def salted_lines(tree: ast.AST) -> Iterator[int]:
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef) and node.name == "__hash__":
            node.body = []  # what it returns tells equal things together, and orders nothing
    names = names_of_sets(tree)
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            name = node.func.id if isinstance(node.func, ast.Name) else getattr(node.func, "attr", "")
            of_set = name not in UNORDERED and any(is_set(argument, names) for argument in node.args)
            if of_set or (name == "hash" and not all(is_number(argument) for argument in node.args)):
                yield node.lineno
        elif isinstance(node, (ast.For, ast.comprehension)) and is_set(node.iter, names):
            yield node.iter.lineno


def names_of_sets(tree: ast.AST) -> set[str]:
    """Return the names to which sets are given, and nothing else, in all of a file; not those of arguments."""
    given: dict[str, list[bool]] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.arg):
            given.setdefault(node.arg, []).append(False)
        for target in node.targets if isinstance(node, ast.Assign) else ():
            if isinstance(target, ast.Name):
                given.setdefault(target.id, []).append(is_set(node.value))
    return {name for name, kinds in given.items() if all(kinds)}


def listing_lines(tree: ast.AST, executed: int) -> Iterator[int]:
    """Yield the lines of calls whose listing of a folder was read while a line was executed.

    `glob` and `walk` return generators, which list a folder where these are gone through, in a later line.
    """
    in_order = {id(each) for call in ast.walk(tree) if is_sorted(call) for each in ast.walk(call)}
    calls = [each for each in ast.walk(tree) if is_listing(each)]
    there = [each for each in calls if each.lineno == executed]
    if not there and executed not in {
        each.lineno for each in ast.walk(tree) if id(each) in in_order and hasattr(each, "lineno")
    }:
        functions = [each for each in ast.walk(tree) if isinstance(each, ast.FunctionDef)]
        around = [each for each in functions if each.lineno <= executed <= each.end_lineno]
        there = [each for each in calls if around and around[-1].lineno <= each.lineno <= executed]
    yield from (each.lineno for each in there if id(each) not in in_order)


def is_listing(node: ast.AST) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in LISTS


def is_sorted(node: ast.AST) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "sorted"


def is_set(node: ast.AST, names: Collection[str] = ()) -> bool:
    """Whether an expression is a set. Sets of numbers that are written down have one order in all processes."""
    if isinstance(node, ast.Name):
        return node.id in names
    if isinstance(node, ast.Set):
        return not all(is_number(each) for each in node.elts)
    named = isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("set", "frozenset")
    return named or isinstance(node, ast.SetComp)


def is_number(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, (int, float))
