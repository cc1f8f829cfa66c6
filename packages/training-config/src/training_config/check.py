"""Everything that can be wrong with a config, found before anything heavy runs and reported at once."""

import re
from collections.abc import Callable, Mapping, Set
from difflib import get_close_matches
from typing import Any, Literal, get_origin

from omegaconf import DictConfig, ListConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from .errors import ConfigError
from .near_names import suggestion
from .overrides import key_of, task_overrides
from .secret_values import redact
from .targets import (
    HYDRA_KEYS,
    Parameters,
    annotations_of,
    is_blocklisted,
    locate,
    parameters_of,
    required,
    takes_any,
    targets,
)
from .values import choices, misfit
from .walk import UNKNOWN, chosen, is_missing, is_null, value_of, walk

Annotations = Mapping[str, Any]
HYDRA_ARGUMENTS = {
    "_convert_": Literal["none", "partial", "object", "all"],
    "_partial_": bool,
    "_recursive_": bool,
    "_args_": list,
}


def check_config(
    cfg: DictConfig, keys: Annotations | None = None, arguments: Mapping[Any, Annotations] | None = None
) -> None:
    """Check that nothing is missing, every interpolation resolves, every `_target_` imports and binds, values fit.

    Args:
        cfg: a composed config.
        keys: annotations of dotted keys that are no argument of a `_target_`; see `values`.
        arguments: annotations of arguments, by the class or function that has them, where its own say less.

    Raises:
        ConfigError: with one line for each problem.
    """
    problems = find_problems(cfg, keys, arguments)
    if problems:
        raise ConfigError("\n".join(problems))


def find_problems(
    cfg: DictConfig, keys: Annotations | None = None, arguments: Mapping[Any, Annotations] | None = None
) -> list[str]:
    """Return a line for each problem that `check_config` knows; it begins with the key."""
    problems = [
        f"{key}=??? must be given a value: add {key}=... to the command" for key in missing(cfg) if not is_target(key)
    ]
    problems += unresolved(cfg)
    problems += misspelt(cfg)
    for key, node in targets(cfg):
        problems += unbound(key, node, arguments or {})
    return problems + [
        f"{key}={shown(value, key)} must be {wanted}"
        for key, annotation in (keys or {}).items()
        if (value := chosen(cfg, key)) is not None or is_null(cfg, key)
        if (wanted := misfit(plain(value), annotation)) is not None
    ]


def is_target(full_key: str) -> bool:
    return full_key.rpartition(".")[2] == "_target_"


def missing(cfg: DictConfig) -> list[str]:
    """Return the keys of `cfg` that are still `???`."""
    return [full_key for full_key, parent, key in walk(cfg) if is_missing(parent, key)]


def misspelt(cfg: DictConfig) -> list[str]:
    """Return a line for each key that `+` has put beside one of almost the same name."""
    added = {key_of(text): text.lstrip("+") for text in task_overrides() if text.startswith("+")}
    problems = []
    for name, text in added.items():
        key = name.partition(".")[0]
        near = get_close_matches(key, [other for other in cfg if other != key], n=1, cutoff=0.8)
        if key not in cfg or not near:
            continue
        own = [
            full
            for full, parent, part in walk(cfg)
            if full.partition(".")[0] == key and not OmegaConf.is_config(parent._get_node(part))
        ]
        if all(any(full == other or full.startswith(f"{other}.") for other in added) for full in own):
            problems.append(f"{text} adds a key that nothing uses; did you mean {near[0]}?")
    return problems


RAISED = "ConfigError raised while resolving interpolation: "


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
            why = str(error).splitlines()[0]
            # What a resolver says of its own arguments is a sentence already.
            problems[full_key] = raw, why.partition(RAISED)[2] or f"{full_key}={raw} does not resolve: {why}"
    unknown = {*missing(cfg)}
    roots = {root_of(key, problems, unknown) for key in problems}
    return [line for key, (_, line) in problems.items() if key in roots]


def root_of(key: str, problems: Mapping[str, tuple[str, str]], unknown: Set[str]) -> str:
    """Return the key that is to blame for one that does not resolve: the last of a chain, the first of a circle."""
    path: list[str] = []
    while key in problems and key not in path:
        path.append(key)
        named = re.findall(r"\$\{([^${}:]+)\}", str(problems[key][0]))  # itself, or what a resolver is given
        key = next((each for each in named if each in problems or each in unknown), "")
    if key in path:
        return min(path[path.index(key) :])
    return key if key in unknown else path[-1]


def unbound(key: str, node: DictConfig, arguments: Mapping[Any, Annotations]) -> list[str]:
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
    parameters = parameters_of(target)
    if parameters is None:  # calling it will show
        return []
    given = {str(argument) for argument in node if argument not in HYDRA_KEYS}
    problems = []
    if not takes_any(parameters):
        problems += [
            f"{key}.{argument} is not an argument of {name}{suggestion(argument, parameters, 'it takes')}"
            for argument in sorted(given - set(parameters))
        ]
    problems += misused(key, node) + misfits(key, node, target, parameters, arguments)
    given_by_position = value_of(node, "_args_") if "_args_" in node else []
    positional = len(given_by_position) if isinstance(given_by_position, (list, ListConfig)) else 0
    absent = [argument for argument in required(parameters)[positional:] if argument not in given]
    if absent and not ("_partial_" in node and value_of(node, "_partial_")):
        hint = "" if set(absent) - {"params", "optimizer"} else f"; add {key}._partial_=true: the model supplies it"
        problems.append(f"{key} lacks {', '.join(absent)} of {name}{hint}")
    return problems


def misused(key: str, node: DictConfig) -> list[str]:
    """Return a line for each of Hydra's own arguments that has a value which Hydra does not know, and ignores."""
    given = {name: value_of(node, name) for name in HYDRA_ARGUMENTS if name in node}
    return [
        f"{key}.{name}={shown(value, f'{key}.{name}')} must be {wanted}"
        for name, value in given.items()
        if value is not UNKNOWN and (wanted := misfit(plain(value), HYDRA_ARGUMENTS[name])) is not None
    ]


def misfits(
    key: str, node: DictConfig, target: Any, parameters: Parameters, arguments: Mapping[Any, Annotations]
) -> list[str]:
    """Return a line for each value that is not what `target`, or `arguments` for it, says of the argument."""
    annotations = annotations_of(target)
    for owner, known in arguments.items():
        if target is owner or (isinstance(target, type) and isinstance(owner, type) and issubclass(target, owner)):
            annotations |= known
    problems = []
    for argument, annotation in annotations.items():
        if argument not in node or OmegaConf.is_interpolation(node, argument):
            continue  # what an interpolation leads to is judged where it stands
        value = value_of(node, argument)
        default = parameters[argument].default if argument in parameters else UNKNOWN
        is_default = value == default and type(value) is type(default)  # 1 is no True
        if value is UNKNOWN or is_default or has_target(node._get_node(argument)):
            continue
        wanted = built_only(annotation) or misfit(plain(value), annotation)
        if wanted is not None:
            near = suggestion(str(value), choices(annotation))
            problems.append(f"{key}.{argument}={shown(value, f'{key}.{argument}')} must be {wanted}{near}")
    return problems


def built_only(annotation: Any) -> str | None:
    """Return in words what only a node with a `_target_` can be: torch's Module and its kinds, and functions."""
    if get_origin(annotation) is Callable:
        return "a function, as a node with a _target_"
    kinds = annotation.__mro__ if isinstance(annotation, type) else ()  # torch is not imported for that
    module = any((kind.__module__, kind.__name__) == ("torch.nn.modules.module", "Module") for kind in kinds)
    return f"{annotation.__name__}, as a node with a _target_" if module else None


def has_target(node: Any) -> bool:
    """Whether there is a node in it that becomes an object, of a class that no value of a config shows."""
    if not OmegaConf.is_config(node) or node._is_none() or node._is_missing():
        return False
    return any(is_target(full_key) for full_key, _, _ in walk(node))


def plain(value: Any) -> Any:
    return OmegaConf.to_container(value, resolve=True) if OmegaConf.is_config(value) else value


def shown(value: Any, key: str) -> Any:
    return "null" if value is None else redact(plain(value), key)
