"""How many processes a Trainer's config asks for."""

from collections.abc import Mapping
from typing import Any

from omegaconf import OmegaConf

SEVERAL = ("ddp", "fsdp", "deepspeed", "modelparallel")  # how the names of strategies with processes of their own begin


def needs_processes(trainer: Any, automatic: int = 1) -> bool:
    """Whether strategy, devices or nodes ask for processes that talk to each other.

    Args:
        trainer: arguments of a Trainer, by name. Whatever else a project calls so asks for none.
    """
    if not isinstance(trainer, Mapping):
        return False
    strategy = trainer.get("strategy") or "auto"
    if isinstance(strategy, Mapping):
        name = strategy.get("_target_", "").rpartition(".")[2]
    else:
        name = strategy if isinstance(strategy, str) else type(strategy).__name__
    return (
        name.lower().startswith(SEVERAL)
        or device_count(trainer, automatic) > 1
        or int(trainer.get("num_nodes") or 1) > 1
    )


def device_count(trainer: Mapping[str, Any], automatic: int = 1) -> int:
    """Return how many devices of this machine `devices` means; `automatic` where it leaves that to Lightning."""
    devices = trainer.get("devices", "auto")
    if isinstance(devices, (list, tuple)) or OmegaConf.is_list(devices):
        return len(devices)
    if devices is None or str(devices) in ("auto", "-1"):
        return automatic
    if isinstance(devices, str) and "," in devices:
        return len([device for device in devices.split(",") if device.strip()])
    return int(devices)
