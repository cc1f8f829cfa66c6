"""Where a value of the config stands: the keys that hold it, and the file and line that a user would change."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from hydra.core.hydra_config import HydraConfig
from omegaconf import DictConfig, OmegaConf

from training_checklist.finding import Finding, Place
from training_checklist.group import groups


def leaves(node: Any, prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yield (dotted key, value) of a plain container."""
    pairs = node.items() if isinstance(node, dict) else enumerate(node)
    for key, value in pairs:
        full_key = f"{prefix}.{key}" if prefix else str(key)
        if isinstance(value, (dict, list)):
            yield from leaves(value, full_key)
        else:
            yield full_key, value


def raw_leaves(config: DictConfig | None) -> dict[str, Any]:
    """Return every value of a config as it was written, under its dotted key."""
    return {} if config is None else dict(leaves(OmegaConf.to_container(config, resolve=False)))


def keys_named(config: DictConfig | None, name: str) -> list[str]:
    return [key for key in raw_leaves(config) if key.rpartition(".")[2] == name]


def place_of(config: DictConfig | None, *keys: str) -> Place | None:
    """Return the place of some keys, with the value and the origin of each as far as they are known; None of none."""
    if not keys:
        return None
    first, *others = keys
    said = ", ".join(f"{key}={shown(config, key)}{set_in(config, key)}" for key in others)
    return Place(key=first, value=shown(config, first), origin=set_in(config, first).strip(" ()"), note=said)


def with_origin(finding: Finding, config: DictConfig | None) -> Finding:
    """Return a finding whose key of the config, be it optimizer.lr or model.optimizer.lr there, says who has set it."""
    place = finding.place
    if not place.key or place.origin:
        return finding
    found = history(config)
    keys = [key for key in found if f".{key}".endswith(f".{place.key}")]
    first = keys if len(keys) == 1 else [key for key in found if key.startswith(f"{place.key}.")][:1]
    own = [each for key in first for each in found[key] if not each.option.startswith(tuple(f"{a}/" for a in groups()))]
    return replace(finding, place=place.beside(origin=str(own[-1]))) if own else finding


def shown(config: DictConfig | None, key: str) -> str:
    value = raw_leaves(config).get(key)
    return "" if value is None else str(value)


def set_in(config: DictConfig | None, key: str) -> str:
    """Return where a key got its value, as " (conf/train.yaml:19)" or " (command line)"; "" where that is not known."""
    settings = history(config).get(key)
    return f" ({settings[-1]})" if settings else ""


def history(config: DictConfig | None) -> dict[str, list[Any]]:
    """Return who has set each key, first to last, as `Setting`s; nothing where that is not known."""
    if config is None or not HydraConfig.initialized():
        return {}
    plain = {"hydra": OmegaConf.to_container(HydraConfig.get(), resolve=False)}
    plain |= OmegaConf.to_container(config, resolve=False)
    try:
        from training_config.provenance import trace_config  # Hydra's internals, which may have moved

        traced = trace_config(OmegaConf.create(plain))
    except Exception:
        return {}
    return {".".join(key): settings for key, settings in traced.history.items()}
