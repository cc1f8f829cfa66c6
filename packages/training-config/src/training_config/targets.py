"""What a `_target_` names: the object, and what its signature asks for."""

import inspect
import warnings
from collections.abc import Callable, Iterator, Mapping
from functools import cache, partial
from importlib import import_module
from pkgutil import iter_modules
from typing import Any, get_type_hints

from hydra.errors import InstantiationException
from hydra.utils import instantiate
from omegaconf import DictConfig

from .near_names import suggestion
from .walk import walk

HYDRA_KEYS = {"_target_", "_partial_", "_args_", "_recursive_", "_convert_", "_mode_"}
Parameters = Mapping[str, inspect.Parameter]
# Every job of a sweep asks the same; what has no hash has no parameters that could be told.
signature, type_hints = cache(inspect.signature), cache(partial(get_type_hints, include_extras=True))


def targets(cfg: DictConfig) -> Iterator[tuple[str, DictConfig]]:
    """Yield (full key, node) of every node that has a `_target_`."""
    for full_key, parent, key in walk(cfg):
        if key == "_target_" and isinstance(parent, DictConfig):
            yield full_key.rpartition(".")[0], parent


def locate(name: str) -> Any:
    """Import the object at a dotted path.

    Raises:
        ImportError: naming the part that does not exist and the nearest names that do, or what a module raised when it
            was imported.
    """
    parts = name.split(".")
    found: Any = None
    for position, part in enumerate(parts):
        path, before = ".".join(parts[: position + 1]), ".".join(parts[:position])
        if position and hasattr(found, part):
            found = getattr(found, part)
            continue
        if position and not inspect.ismodule(found):
            raise ImportError(f"{before} has no {part!r}{suggestion(part, dir(found))}")
        try:
            found = import_module(path)
        except ModuleNotFoundError as error:
            if error.name != path:  # the module exists, but imports something that does not
                raise ImportError(f"importing {path} fails: {error}") from error
            if not position:
                raise ImportError(f"there is no module {part!r}; is it installed?") from error
            modules = [module.name for module in iter_modules(getattr(found, "__path__", []))]
            raise ImportError(f"{before} has no {part!r}{suggestion(part, [*modules, *dir(found)])}") from error
        except Exception as error:  # the module's own code
            raise ImportError(f"importing {path} fails: {type(error).__name__}: {error}") from error
    return found


@cache
def is_blocklisted(name: str) -> bool:
    """Whether Hydra's own policy refuses a target. To be asked before `locate`: Hydra asks it before it imports."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Hydra 1.4 warns of targets without a whitelist; it will when one is built
            instantiate({"_target_": name, "_partial_": True})
    except InstantiationException as error:
        return not str(error).startswith(("Error locating target", "Expected a callable"))
    return False


def parameters_of(target: Callable) -> Parameters | None:
    """Return the parameters of a callable, or None where it does not tell them, as some builtins do not."""
    try:
        return signature(target).parameters
    except (TypeError, ValueError):
        return None


def takes_any(parameters: Parameters) -> bool:
    """Whether a callable collects keyword arguments that it does not name."""
    return any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters.values())


def required(parameters: Parameters) -> list[str]:
    """Return the arguments that have no default, in their order."""
    return [
        parameter.name
        for parameter in parameters.values()
        if parameter.default is parameter.empty
        and parameter.kind in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY)
    ]


def annotations_of(target: Callable) -> dict[str, Any]:
    """Return the annotations of a callable's arguments; none where they name what only a type checker imports.

    Where a class passes on what it does not name, they are also those of the class above.
    """
    functions = [target]
    if inspect.isclass(target):
        functions = [kind.__init__ for kind in target.__mro__ if "__init__" in vars(kind) and kind is not object]
    annotations: dict[str, Any] = {}
    for function in functions:
        try:
            annotations = type_hints(function) | annotations
        except Exception:  # annotations are evaluated: of any kind
            break
        if not takes_any(parameters_of(function) or {}):
            break
    return annotations
