"""Which keys of its config a program reads while it runs."""

import sys
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from functools import wraps
from types import FrameType
from typing import Any

from omegaconf import DictConfig

from training_checklist.engines.own_code import is_of_checks, pass_on

ASKED_BY = ("fast_dev_run",)  # the item that judges it; others run without a record
# What goes through all keys and uses none: it writes them down, or makes another config of them.
USES_NONE = {"merge", "merge_with", "unsafe_merge", "resolve", "to_yaml", "save", "__str__", "__repr__", "missing_keys"}
LOGGING = ("wandb", "mlflow", "lightning_fabric.loggers", "lightning.fabric.loggers")
LOGGING += tuple(
    f"{name}.{part}" for name in ("pytorch_lightning", "lightning.pytorch") for part in ("loggers", "core")
)
INSTANTIATE = "hydra._internal.instantiate."  # it resolves what it is given as a whole, and then takes key by key

_keys: set[str] = set()


def seen() -> frozenset[str]:
    """Return the keys that were read since the record began, with dots, as seen from the root of their config."""
    return frozenset(_keys)


@contextmanager
def recorded_reads(items: Collection[str]) -> Iterator[None]:
    """While it is entered, reads of any config are recorded, if one of `items` judges them."""
    global _keys
    if set(items).isdisjoint(ASKED_BY):
        yield
        return
    before, _keys = _keys, set()
    get = DictConfig._get_node

    @wraps(get)
    def recorded(config: DictConfig, key: Any, *arguments: Any, **options: Any) -> Any:
        if is_used(sys._getframe(1)):
            _keys.add(config._get_full_key(key))
        return pass_on(get, config, key, *arguments, **options)  # what it raises is the program's

    DictConfig._get_node = recorded
    try:
        yield
    finally:
        DictConfig._get_node, _keys = get, before


def is_used(frame: FrameType | None) -> bool:
    """Whether a read that has come to this frame of OmegaConf is one of a key that somebody uses."""
    function = ""
    while frame is not None and frame.f_globals.get("__name__", "").startswith("omegaconf."):
        function, frame = frame.f_code.co_name, frame.f_back
    if frame is None or function in USES_NONE:
        return False
    module = frame.f_globals.get("__name__", "")
    if module.startswith("hydra."):
        return module.startswith(INSTANTIATE) and frame.f_code.co_name == "instantiate_node" and takes_apart(frame)
    return not module.startswith(LOGGING) and not is_of_checks(frame.f_code.co_filename)


def takes_apart(frame: FrameType) -> bool:
    """Whether Hydra makes something else of a node, and does not hand it on for others to read key by key."""
    node, convert = frame.f_locals.get("node"), frame.f_locals.get("convert")
    is_plain = isinstance(node, DictConfig) and "_target_" not in (vars(node)["_content"] or ())
    return not (is_plain and convert in (None, "none"))
