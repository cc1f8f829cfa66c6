"""Whether the arguments of a node fit the signature of its `_target_`, as far as the code supplies no others."""

import ast
import inspect
import re
import sys
import types
import typing
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from training_config.targets import Parameters, takes_any

from training_checklist.engines.source_trees import source_tree
from training_checklist.lab.code_reads import Code
from training_checklist.lightning import Trainer

NUMBER = re.compile(r"[-+]?(\d[\d_]*\.?\d*|\.\d+)([eE][-+]?\d+)?")
EXPONENT = re.compile(r"[-+]?(\d+\.?\d*|\.\d+)[eE][-+]?\d+")
BOOLEAN = {"true", "false", "yes", "no", "on", "off"}
OTHER_TEXTS = type("OtherTexts", (), {})  # an annotation's Literal lists texts, and the one in question is none of them


def unknown_arguments(given: list[str], parameters: Parameters, code: Code | None) -> list[str]:
    """Return the keys that a callable has no argument for."""
    if takes_any(parameters) or (code is not None and code.fits):
        return []
    takes = {name for name, parameter in parameters.items() if parameter.kind is not parameter.POSITIONAL_ONLY}
    return [key for key in given if key not in takes and not (code is not None and key in code.popped)]


def misfit(value: Any, parameter: inspect.Parameter | None, annotation: Any) -> str | None:
    """Return what should stand where a text does, such as "a number", or None where the text may be meant."""
    if not isinstance(value, str):
        return None
    text = value.strip()
    kinds = members(annotation, text)
    default = inspect.Parameter.empty if parameter is None else parameter.default
    known = kinds is not None
    if known and (str in kinds or not kinds):
        return None
    if text == "None" and (default is None or (known and str not in kinds)):
        return "null"
    if NUMBER.fullmatch(text):
        wanted = bool(kinds & {int, float, complex}) if known else type(default) in (int, float)
        unspoken = not known and default in (None, inspect.Parameter.empty) and EXPONENT.fullmatch(text)
        return "a number" if wanted or unspoken else None
    if text.lower() in BOOLEAN:
        return "true or false" if (kinds - {OTHER_TEXTS} == {bool} if known else isinstance(default, bool)) else None
    if re.fullmatch(r"[\[(].*[\])]", text, re.DOTALL):
        return "a list" if isinstance(default, (tuple, list)) or (known and kinds & {tuple, list}) else None
    return None


def members(annotation: Any, text: str) -> set[type] | None:
    """Return the types that an annotation admits beside None: none where it is not plain; None where it is absent.

    A `Literal` admits `str` where it lists `text`.
    """
    if annotation in (inspect.Parameter.empty, None):
        return None
    origin = typing.get_origin(annotation)
    if origin in (typing.Union, types.UnionType):
        parts = [members(part, text) for part in typing.get_args(annotation) if part is not type(None)]
        return set().union(*parts) if all(parts) else set()
    if origin is typing.Annotated:
        return members(typing.get_args(annotation)[0], text)
    if origin is typing.Literal:
        listed = typing.get_args(annotation)
        texts = str if text in listed else OTHER_TEXTS
        return {texts if isinstance(value, str) else type(value) for value in listed} - {type(None)}
    if isinstance(origin, type):
        return {origin}
    plain = isinstance(annotation, type) and annotation not in (object, typing.Any)
    return {annotation} if plain else set()


def splatted(code: Code) -> Iterator[tuple[str, Callable, str]]:
    """Yield (key, callable, its name) of each node that the code hands over as `callable(**cfg.key)`."""
    for file, callee, key in sorted(code.splats):
        if key in code.looped:  # some of its keys go elsewhere
            continue
        module = next((m for m in list(sys.modules.values()) if same_file(m, file)), None)
        if module is None and is_program(file):  # another one than this
            continue
        found: Any = module
        for part in callee.split("."):
            found = getattr(found, part, None)
        if found is None and callee.rpartition(".")[2] == "Trainer":
            found = Trainer
        if callable(found):
            yield key, found, callee


def is_program(file: str) -> bool:
    """Whether a file does something when it is run: `if __name__ == "__main__"`."""
    return any(isinstance(node, ast.If) and "__name__" in ast.unparse(node.test) for node in source_tree(file).body)


def same_file(module: types.ModuleType, file: str) -> bool:
    own = getattr(module, "__file__", None)
    # Names first: links are followed for few of some thousand modules.
    return isinstance(own, str) and Path(own).name == Path(file).name and Path(own).resolve() == Path(file)
