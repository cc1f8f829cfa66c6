"""Going through a config without resolving or building anything."""

from collections.abc import Iterator
from typing import Any

from omegaconf import DictConfig, ListConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

UNKNOWN = object()  # a value that is missing or does not resolve


def walk(node: DictConfig | ListConfig, prefix: str = "") -> Iterator[tuple[str, DictConfig | ListConfig, str | int]]:
    """Yield (full key, parent, key) of every value, a container before its content; `${...}` is not followed."""
    for key in list(node.keys()) if isinstance(node, DictConfig) else range(len(node)):
        full_key = f"{prefix}.{key}" if prefix else str(key)
        yield full_key, node, key
        child = node._get_node(key)
        if isinstance(child, (DictConfig, ListConfig)) and not is_no_content(child):
            yield from walk(child, full_key)


def is_no_content(node: DictConfig | ListConfig) -> bool:
    return node._is_interpolation() or node._is_missing() or node._is_none()


def is_missing(node: DictConfig | ListConfig, key: str | int) -> bool:
    # OmegaConf.is_missing follows an interpolation and raises where that leads nowhere.
    return not OmegaConf.is_interpolation(node, key) and OmegaConf.is_missing(node, key)


def value_of(node: DictConfig | ListConfig, key: str | int) -> Any:
    """Return a resolved value, or `UNKNOWN` where it is missing or leads nowhere."""
    try:
        return UNKNOWN if is_missing(node, key) else node[key]
    except Exception:  # OmegaConf's own, or whatever a resolver raises
        return UNKNOWN


def chosen(cfg: DictConfig, key: str) -> Any:
    """Return the value of a dotted key; None where it is absent, null, or does not resolve."""
    try:
        return OmegaConf.select(cfg, key)
    except OmegaConfBaseException:
        return None


def is_null(cfg: DictConfig, key: str) -> bool:
    """Whether a dotted key is there, and null."""
    above, _, name = key.rpartition(".")
    parent = chosen(cfg, above) if above else cfg
    return OmegaConf.is_dict(parent) and name in parent and value_of(parent, name) is None


def flat(content: Any, key: str = "") -> Iterator[tuple[str, Any]]:
    """Yield (dotted key, value) of every value in nested dicts and lists; what is in a list has the list's key."""
    if isinstance(content, dict):
        for name, each in content.items():
            yield from flat(each, f"{key}.{name}" if key else str(name))
    elif isinstance(content, list):
        for each in content:
            yield from flat(each, key)
    else:
        yield key, content
