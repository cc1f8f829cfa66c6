"""Everything that can be wrong with a config, found before anything heavy runs and reported at once."""

import inspect
from collections.abc import Iterator
from difflib import get_close_matches
from importlib import import_module
from importlib.util import find_spec
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from hydra.errors import InstantiationException
from hydra.utils import instantiate
from omegaconf import DictConfig, ListConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from ..errors import ConfigError
from .overrides import task_overrides
from .redaction import redact
from .value_check import impossible, out_of_range, refused_by_torch

HYDRA_KEYS = {"_target_", "_partial_", "_args_", "_recursive_", "_convert_"}
# Targets that import without the package that they need: module, and extra of this project that installs it.
EXTRAS = {
    "pytorch_lightning.loggers.WandbLogger": "wandb",
    "pytorch_lightning.loggers.MLFlowLogger": "mlflow",
}
PLAIN = {int: "a whole number", float: "a number", str: "text", bool: "true or false", NoneType: "null"}


def check_config(cfg: DictConfig, trains: bool = True) -> None:
    """Check that nothing is missing, every interpolation resolves, every `_target_` imports and binds, values fit.

    Args:
        cfg: a composed config.
        trains: False where it will not train on this machine: devices and directories are not looked at then.

    Raises:
        ConfigError: with one line for each problem.
    """
    problems = [
        f"{key}=??? must be given a value: add {key}=... to the command" for key in missing(cfg) if not is_target(key)
    ]
    problems += unresolved(cfg)
    problems += misspelt(cfg)
    for key, node in targets(cfg):
        problems += unbound(key, node)
    told = {line.partition("=")[0] for line in problems}
    problems += [line for line in out_of_range(cfg) if line.partition("=")[0] not in told]
    if trains:
        problems = problems or [*impossible(cfg)]
    if not problems:
        problems = [*refused_by_torch(cfg)]
    if problems:
        raise ConfigError("\n".join(problems))


def walk(node: DictConfig | ListConfig, prefix: str = "") -> Iterator[tuple[str, DictConfig | ListConfig, str | int]]:
    """Yield (full key, parent, key) of every value, a container before its content; `${...}` is not followed."""
    for key in node.keys() if isinstance(node, DictConfig) else range(len(node)):
        full_key = f"{prefix}.{key}" if prefix else str(key)
        yield full_key, node, key
        if OmegaConf.is_interpolation(node, key) or is_missing(node, key):
            continue
        child = node._get_node(key)
        if isinstance(child, (DictConfig, ListConfig)) and not child._is_none():
            yield from walk(child, full_key)


def is_missing(node: DictConfig | ListConfig, key: str | int) -> bool:
    # OmegaConf.is_missing follows an interpolation and raises where that leads nowhere.
    return not OmegaConf.is_interpolation(node, key) and OmegaConf.is_missing(node, key)


def is_target(full_key: str) -> bool:
    return full_key.rpartition(".")[2] == "_target_"


def missing(cfg: DictConfig) -> list[str]:
    """Return the keys of `cfg` that are still `???`."""
    return [full_key for full_key, parent, key in walk(cfg) if is_missing(parent, key)]


def misspelt(cfg: DictConfig) -> list[str]:
    """Return a line for each key that `+` has put beside one of almost the same name."""
    added = {text.lstrip("+").partition("=")[0]: text.lstrip("+") for text in task_overrides() if text.startswith("+")}
    problems = []
    for name, text in added.items():
        key = name.partition(".")[0]
        own = [full for full, parent, part in walk(cfg) if full.partition(".")[0] == key and not is_node(parent, part)]
        is_new = all(any(full == other or full.startswith(f"{other}.") for other in added) for full in own)
        near = get_close_matches(key, [other for other in cfg if other != key], n=1, cutoff=0.8)
        if key in cfg and is_new and near:
            problems.append(f"{text} is read by nothing; did you mean {near[0]}?")
    return problems


def is_node(parent: DictConfig | ListConfig, key: str | int) -> bool:
    return isinstance(parent._get_node(key), (DictConfig, ListConfig))


def unresolved(cfg: DictConfig) -> list[str]:
    """Return a line for each interpolation that leads nowhere, without those that only lead to one."""
    problems = {}
    for full_key, parent, key in walk(cfg):
        if not OmegaConf.is_interpolation(parent, key) or is_target(full_key):
            continue
        try:
            parent[key]
        except OmegaConfBaseException as error:
            raw = OmegaConf.to_container(parent, resolve=False)[key]
            problems[full_key] = raw, str(error).splitlines()[0]
    causes = {"${" + key + "}" for key in [*problems, *missing(cfg)]}
    return [f"{key}={raw} does not resolve: {why}" for key, (raw, why) in problems.items() if raw not in causes]


def targets(cfg: DictConfig) -> Iterator[tuple[str, DictConfig]]:
    """Yield (full key, node) of every node that names a `_target_`."""
    for full_key, parent, key in walk(cfg):
        if key == "_target_" and isinstance(parent, DictConfig):
            yield full_key.rpartition(".")[0], parent


def unbound(key: str, node: DictConfig) -> list[str]:
    """Return a line for each way in which `node` does not fit the signature of its `_target_`."""
    raw = OmegaConf.to_container(node, resolve=False)["_target_"]
    if is_missing(node, "_target_"):
        return [f"{key}._target_=??? must name a class or function"]
    try:
        name = node["_target_"]
    except OmegaConfBaseException as error:
        return [f"{key}._target_={raw} does not resolve: {str(error).splitlines()[0]}"]
    if not isinstance(name, str) or not name:
        return [f"{key}._target_={'null' if name is None else name} must name a class or function"]
    if is_blocklisted(name):
        return [f"{key}._target_={name} is refused: what a config builds must not run or delete what it likes"]
    try:
        target = locate(name)
    except ImportError as error:
        return [f"{key}._target_={name} cannot be imported: {error}"]
    if not callable(target):
        return [f"{key}._target_={name} is a {type(target).__name__}, not a class or function"]
    extra = EXTRAS.get(name)
    if extra is not None and find_spec(extra) is None:
        return [f"{key}._target_={name} needs {extra}; install it with: pip install -e '.[{extra}]'"]
    try:
        signature = inspect.signature(target)
    except (TypeError, ValueError):  # some builtins tell no signature; calling them will show
        return []
    parameters = signature.parameters
    given = {str(argument) for argument in node if argument not in HYDRA_KEYS}
    problems = []
    if not any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters.values()):
        problems += [
            f"{key}.{argument} is not an argument of {name}{suggestion(argument, parameters, 'it takes')}"
            for argument in sorted(given - set(parameters))
        ]
    required = [
        parameter.name
        for parameter in parameters.values()
        if parameter.default is parameter.empty
        and parameter.kind in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY)
    ]
    problems += mistyped(key, node, target)
    positional = len(node.get("_args_") or [])
    absent = [argument for argument in required[positional:] if argument not in given]
    if absent and not node.get("_partial_"):
        hint = "" if set(absent) - {"params", "optimizer"} else f"; add {key}._partial_=true: the model supplies it"
        problems.append(f"{key} lacks {', '.join(absent)} of {name}{hint}")
    return problems


def is_blocklisted(name: str) -> bool:
    """Whether Hydra's own policy refuses a target. Asked before this module imports anything, and without a call."""
    try:
        instantiate({"_target_": name, "_partial_": True})
    except InstantiationException as error:
        return not str(error).startswith(("Error locating target", "Expected a callable"))
    return False


def mistyped(key: str, node: DictConfig, target: Any) -> list[str]:
    """Return a line for each value that is none of the types with which `target` annotates the argument.

    Only what can be told for sure: where plain types or literals are among them, and for null.
    """
    try:
        hints = get_type_hints(target.__init__ if inspect.isclass(target) else target)
    except Exception:  # annotations may name what only a type checker imports
        return []
    parameters = inspect.signature(target).parameters
    problems = []
    for argument, hint in hints.items():
        if argument not in node or OmegaConf.is_interpolation(node, argument) or is_missing(node, argument):
            continue  # what an interpolation leads to is judged where it stands
        value, default = node[argument], parameters[argument].default if argument in parameters else None
        types = [*alternatives(hint)]
        if value == default or fits(value, types):
            continue
        names = dict.fromkeys(name for each in types for name in in_words(each))
        shown = "null" if value is None else redact(value, f"{key}.{argument}")
        problems.append(f"{key}.{argument}={shown} must be {' or '.join(names)}{suggestion(str(value), names)}")
    return problems


def alternatives(hint: Any) -> Iterator[Any]:
    """Yield the members of a union, or the type itself."""
    if get_origin(hint) in (Union, UnionType):
        for member in get_args(hint):
            yield from alternatives(member)
    else:
        yield hint


def fits(value: Any, types: list[Any]) -> bool:
    """Whether a config's value may be meant where one of `types` is wanted; true where that cannot be told."""
    plain = [each for each in types if each in PLAIN or get_origin(each) is Literal]
    if OmegaConf.is_config(value):
        return len(plain) < len(types)
    if value is not None and not set(plain) - {NoneType}:
        return True
    return any(is_instance(value, each) for each in types)


def is_instance(value: Any, each: Any) -> bool:
    if get_origin(each) is Literal:
        return value in get_args(each)
    if each in (int, float) and isinstance(value, bool):
        return False
    if each is float:
        return isinstance(value, (int, float))
    kind = get_origin(each) or each
    return isinstance(value, kind) if isinstance(kind, type) else True


def in_words(each: Any) -> list[str]:
    if get_origin(each) is Literal:
        return [str(choice) for choice in get_args(each)]
    return [PLAIN.get(each) or getattr(each, "__name__", str(each))]


def locate(name: str) -> Any:
    """Import the object at a dotted path.

    Raises:
        ImportError: naming the part that does not exist and the nearest names that do.
    """
    parts = name.split(".")
    found: Any = None
    for position, part in enumerate(parts):
        path = ".".join(parts[: position + 1])
        if position and hasattr(found, part):
            found = getattr(found, part)
            continue
        if position and not inspect.ismodule(found):
            raise ImportError(f"{'.'.join(parts[:position])} has no {part!r}{suggestion(part, dir(found))}")
        try:
            found = import_module(path)
        except ModuleNotFoundError as error:
            if error.name != path:  # the module exists, but imports something that does not
                raise
            if not position:
                raise ImportError(f"there is no module {part!r}; is it installed?") from error
            raise ImportError(f"{'.'.join(parts[:position])} has no {part!r}{suggestion(part, dir(found))}") from error
    return found


def suggestion(wrong: str, known: Any, otherwise: str = "") -> str:
    """Return "; did you mean ...?" with the nearest of `known`, else "; `otherwise` ..." with all of them, or ""."""
    names = list(dict.fromkeys(str(name) for name in known))
    near = get_close_matches(wrong, names, n=3, cutoff=0.6)
    if near:
        return f"; did you mean {' or '.join(near)}?"
    return f"; {otherwise} {', '.join(names)}" if otherwise else ""
