"""Everything that can be wrong with a config, found before anything heavy runs and reported at once."""

from collections.abc import Mapping
from difflib import get_close_matches
from typing import Any

from omegaconf import DictConfig, OmegaConf
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
from .walk import UNKNOWN, chosen, is_missing, value_of, walk

Annotations = Mapping[str, Any]


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
        if (value := chosen(cfg, key)) is not None and (wanted := misfit(plain(value), annotation)) is not None
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
        own = [
            full
            for full, parent, part in walk(cfg)
            if full.partition(".")[0] == key and not OmegaConf.is_config(parent._get_node(part))
        ]
        is_new = all(any(full == other or full.startswith(f"{other}.") for other in added) for full in own)
        near = get_close_matches(key, [other for other in cfg if other != key], n=1, cutoff=0.8)
        if key in cfg and is_new and near:
            problems.append(f"{text} is read by nothing; did you mean {near[0]}?")
    return problems


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
    problems += misfits(key, node, target, parameters, arguments)
    positional = len(node.get("_args_") or [])
    absent = [argument for argument in required(parameters)[positional:] if argument not in given]
    if absent and not node.get("_partial_"):
        hint = "" if set(absent) - {"params", "optimizer"} else f"; add {key}._partial_=true: the model supplies it"
        problems.append(f"{key} lacks {', '.join(absent)} of {name}{hint}")
    return problems


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
        if value is UNKNOWN or value == default or has_target(node._get_node(argument)):
            continue
        wanted = misfit(plain(value), annotation)
        if wanted is not None:
            near = suggestion(str(value), choices(annotation))
            problems.append(f"{key}.{argument}={shown(value, f'{key}.{argument}')} must be {wanted}{near}")
    return problems


def has_target(node: Any) -> bool:
    """Whether there is a node in it that becomes an object, of a class that no value of a config shows."""
    if not OmegaConf.is_config(node) or node._is_none() or node._is_missing():
        return False
    return any(is_target(full_key) for full_key, _, _ in walk(node))


def plain(value: Any) -> Any:
    return OmegaConf.to_container(value, resolve=True) if OmegaConf.is_config(value) else value


def shown(value: Any, key: str) -> Any:
    return "null" if value is None else redact(plain(value), key)
