"""Building what a config describes: Hydra's `instantiate`, and plain YAML lists where a class wants a tensor."""

from copy import deepcopy
from typing import Any, get_args

import hydra.utils
from omegaconf import DictConfig, OmegaConf

from .targets import annotations_of, is_blocklisted, locate


def instantiate(part: Any, **arguments: Any) -> Any:
    """Build `part` as `hydra.utils.instantiate` does; a list for an argument that is a torch.Tensor becomes one.

    `weight: [2, 1, 1]` is then what torch.nn.CrossEntropyLoss takes: float32, and on the device that its module is on.
    Which argument that is, its annotation says. The config keeps its list.
    """
    if OmegaConf.is_dict(part):
        content = OmegaConf.to_container(part, resolve=True)
        if with_tensors(content):
            part = replaced(part, content)
    return hydra.utils.instantiate(part, **arguments)


def replaced(part: DictConfig, content: dict[str, Any]) -> DictConfig:
    """Return `content` at the place of `part` in a copy of its config: Hydra names the key of what it cannot build."""
    root, key = deepcopy(part._get_root()), part._get_full_key(None)
    if not key:
        return OmegaConf.create(content)
    OmegaConf.set_readonly(root, False)
    OmegaConf.update(root, key, content, merge=False, force_add=True)
    return OmegaConf.select(root, key)


def with_tensors(content: Any) -> bool:
    """Put a node that builds a tensor in the place of each list for one, in nested dicts; whether there was any."""
    if isinstance(content, list):
        return any([with_tensors(each) for each in content])
    if not isinstance(content, dict):
        return False
    found = any([with_tensors(each) for each in content.values()])
    lists = [name for name, value in content.items() if isinstance(value, list) and value]
    target = content.get("_target_")
    if not lists or not isinstance(target, str) or is_blocklisted(target):
        return found
    annotations = annotations_of(locate(target))
    for name in lists:
        if name in annotations and is_tensor(annotations[name]):
            content[name] = {"_target_": "torch.Tensor", "_args_": [content[name]], "_convert_": "all"}
            found = True
    return found


def is_tensor(annotation: Any) -> bool:
    """Whether an annotation is torch.Tensor, or that or None; torch is not imported for it."""
    kinds = get_args(annotation) or (annotation,)
    names = {(getattr(kind, "__module__", ""), getattr(kind, "__name__", "")) for kind in kinds}
    return ("torch", "Tensor") in names
