"""Whether the values of a config fit what they are given to: the `_target_` of each node and its signature."""

import inspect
import re
import sys
import types
import typing
from collections.abc import Callable, Iterator
from difflib import get_close_matches
from importlib import import_module
from pathlib import Path
from typing import Any

from omegaconf import DictConfig, ListConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException
from pytorch_lightning import Trainer

from .code_reads import Code

HYDRA_KEYS = {"_target_", "_partial_", "_args_", "_recursive_", "_convert_", "_mode_"}
NUMBER = re.compile(r"[-+]?(\d[\d_]*\.?\d*|\.\d+)([eE][-+]?\d+)?")
EXPONENT = re.compile(r"[-+]?(\d+\.?\d*|\.\d+)[eE][-+]?\d+")
BOOLEAN = {"true", "false", "yes", "no", "on", "off"}
UNKNOWN = object()  # a value that does not resolve
OTHER_TEXTS = type("OtherTexts", (), {})  # an annotation's Literal lists texts, and the one in question is none of them
CONSTRUCTORS = {"get_class", "get_method", "get_object"}  # of hydra.utils: the code calls a target itself


def walk(node: DictConfig | ListConfig, prefix: str = "") -> Iterator[tuple[str, DictConfig | ListConfig, Any]]:
    """Yield (full key, parent, key) of every value, a container before its content; `${...}` is not followed."""
    for key in list(node.keys()) if isinstance(node, DictConfig) else range(len(node)):
        full_key = f"{prefix}.{key}" if prefix else str(key)
        yield full_key, node, key
        child = node._get_node(key)
        if isinstance(child, (DictConfig, ListConfig)) and not (
            child._is_none() or child._is_missing() or child._is_interpolation()
        ):
            yield from walk(child, full_key)


def is_missing(node: DictConfig | ListConfig, key: Any) -> bool:
    # OmegaConf.is_missing follows an interpolation and raises where that leads nowhere.
    return not OmegaConf.is_interpolation(node, key) and OmegaConf.is_missing(node, key)


def value_of(node: DictConfig | ListConfig, key: Any) -> Any:
    """Return a resolved value, or `UNKNOWN` where it is missing or leads nowhere."""
    try:
        return UNKNOWN if is_missing(node, key) else node[key]
    except OmegaConfBaseException:
        return UNKNOWN
    except Exception:  # a resolver of the project
        return UNKNOWN


def locate(target: str) -> Any:
    """Import the object at a dotted path.

    Raises:
        ImportError: naming the part that does not exist and the nearest names that do.
    """
    parts = target.split(".")
    found: Any = None
    for position, part in enumerate(parts):
        if position and hasattr(found, part):
            found = getattr(found, part)
            continue
        path, before = ".".join(parts[: position + 1]), ".".join(parts[:position])
        if position and not inspect.ismodule(found):
            raise ImportError(f"{before} has no {part!r}{nearest(part, dir(found))}")
        try:
            found = import_module(path)
        except ModuleNotFoundError as error:
            if error.name != path:
                raise ImportError(f"importing {path} fails: {error}") from error
            if not position:
                raise ImportError(f"there is no module {part!r}") from error
            raise ImportError(f"{before} has no {part!r}{nearest(part, dir(found))}") from error
        except Exception as error:  # the module's own code
            raise ImportError(f"importing {path} fails: {type(error).__name__}: {error}") from error
    return found


def nearest(wrong: str, known: Any, cutoff: float = 0.6) -> str:
    """Return "; did you mean ...?" with the nearest of `known`, or ""."""
    near = get_close_matches(wrong, [str(name) for name in known], n=2, cutoff=cutoff)
    return f"; did you mean {' or '.join(near)}?" if near else ""


def parameters_of(target: Callable) -> dict[str, inspect.Parameter] | None:
    """Return the parameters of a callable, or None where it does not tell them."""
    try:
        return dict(inspect.signature(target).parameters)
    except (TypeError, ValueError):
        return None


def unknown_arguments(given: list[str], parameters: dict[str, inspect.Parameter], code: Code | None) -> list[str]:
    """Return the keys that a callable has no argument for."""
    if any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters.values()):
        return []
    takes = {name for name, parameter in parameters.items() if parameter.kind is not parameter.POSITIONAL_ONLY}
    return [key for key in given if key not in takes and not (code is not None and key in code.popped)]


def absent_arguments(node: DictConfig, parameters: dict[str, inspect.Parameter], code: Code | None) -> list[str]:
    """Return the required arguments that neither the node nor, as far as its source tells, the code gives."""
    if code is None or code.supplies or code.words & CONSTRUCTORS or value_of(node, "_partial_") is True:
        return []
    required = [
        parameter.name
        for parameter in parameters.values()
        if parameter.default is parameter.empty
        and parameter.kind in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY)
    ]
    positional = value_of(node, "_args_") if "_args_" in node else []
    given = len(positional) if isinstance(positional, (list, ListConfig)) else 0
    return [name for name in required[given:] if name not in node and name not in code.supplied]


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


def annotations_of(target: Callable) -> dict[str, Any]:
    """Return the annotations of a callable's arguments, as far as they can be evaluated."""
    function = target.__init__ if inspect.isclass(target) else target
    try:
        return typing.get_type_hints(function)
    except Exception:  # names that exist for type checkers alone
        return {name: UNKNOWN for name in getattr(function, "__annotations__", {})}


def splatted(code: Code) -> Iterator[tuple[str, Callable, str]]:
    """Yield (key, callable, its name) of each node that the code hands over as `callable(**cfg.key)`."""
    for file, callee, key in sorted(code.splats):
        module = next((m for m in list(sys.modules.values()) if same_file(m, file)), None)
        found: Any = module
        for part in callee.split("."):
            found = getattr(found, part, None)
        if found is None and callee.rpartition(".")[2] == "Trainer":
            found = Trainer
        if callable(found):
            yield key, found, callee


def same_file(module: types.ModuleType, file: str) -> bool:
    own = getattr(module, "__file__", None)
    return isinstance(own, str) and Path(own).resolve() == Path(file)
