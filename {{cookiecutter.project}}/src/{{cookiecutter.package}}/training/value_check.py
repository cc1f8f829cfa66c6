"""What no signature tells: values out of range, and combinations that cannot work."""

import os
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

GPUS = ("cuda", "mps")
FP16 = ("16-mixed", "16-true", "16")


def whole(value: Any, low: float, high: float = float("inf")) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and low <= value <= high


def number(value: Any, low: float, high: float = float("inf")) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and low <= value <= high  # NaN is not


def limit(value: Any) -> bool:
    return whole(value, 0) or number(value, 0, 1)


# Of a value that is neither absent nor null: the test that it must pass, and what that test says.
RANGES: dict[str, tuple[Callable[[Any], bool], str]] = {
    "seed": (lambda value: whole(value, 0, 2**32 - 1), "a whole number from 0 to 4294967295, or null"),
    "mode": (lambda value: value in ("min", "max"), "min or max"),
    "test": (lambda value: isinstance(value, bool), "true or false"),
    "print_config": (lambda value: isinstance(value, bool), "true or false"),
    "model.net.dropout": (lambda value: number(value, 0, 1), "a number from 0 to 1"),
    "criterion.label_smoothing": (lambda value: number(value, 0, 1), "a number from 0 to 1"),
    "criterion.reduction": (lambda value: value in ("mean", "sum"), "mean or sum: training needs one number"),
    "scheduler.interval": (lambda value: value in ("step", "epoch"), "step or epoch"),
    "trainer.max_epochs": (lambda value: whole(value, -1), "a whole number, -1 for no end, or null"),
    "trainer.max_steps": (lambda value: whole(value, -1), "a whole number, or -1 for no end"),
    "trainer.accumulate_grad_batches": (lambda value: whole(value, 1), "a whole number of at least 1"),
    "trainer.gradient_clip_val": (lambda value: number(value, 0), "a number of at least 0, or null"),
    "trainer.log_every_n_steps": (lambda value: whole(value, 1), "a whole number of at least 1"),
    "trainer.limit_train_batches": (limit, "a whole number of batches, or a share from 0.0 to 1.0"),
    "trainer.limit_val_batches": (limit, "a whole number of batches, or a share from 0.0 to 1.0"),
    "trainer.limit_test_batches": (limit, "a whole number of batches, or a share from 0.0 to 1.0"),
    "callbacks.checkpoint.save_top_k": (lambda value: whole(value, -1), "a whole number, or -1 for all"),
    "callbacks.checkpoint.every_n_epochs": (lambda value: whole(value, 0), "a whole number of at least 0"),
    "callbacks.early_stopping.patience": (lambda value: whole(value, 0), "a whole number of at least 0"),
}


def out_of_range(cfg: DictConfig) -> Iterator[str]:
    """Yield a line for each value of `cfg` that `RANGES` does not allow."""
    for key, (allowed, wanted) in RANGES.items():
        value = chosen(cfg, key)
        if value is not None and not allowed(value):
            yield f"{key}={value} must be {wanted}"


def impossible(cfg: DictConfig) -> Iterator[str]:
    """Yield a line for each combination that this machine or these parts cannot do."""
    for group in ("callbacks", "logger"):
        for name, part in (chosen(cfg, group) or {}).items():
            if part is not None and chosen(cfg, f"{group}.{name}._target_") is None:
                yield f"{group}.{name}={part} has no _target_; name a class with {group}.{name}._target_=..., or null"
    for group in ("data", "model", "trainer"):
        if group in cfg and chosen(cfg, f"{group}._target_") is None:
            yield f"{group} has no _target_; choose an option of conf/{group}"
    yield from wrong_kinds(cfg)
    ours, theirs = chosen(cfg, "model.net.num_classes"), chosen(cfg, "data.num_classes")
    if None not in (ours, theirs) and ours != theirs:
        yield f"model.net.num_classes={ours} but data.num_classes={theirs}; they must be the same"
    folder = chosen(cfg, "output_dir")
    if folder is not None and not (os.path.isdir(folder) and os.access(folder, os.W_OK)):
        yield f"output_dir={folder} is no directory to write to; leave it, and say hydra.run.dir=... to place a run"
    plateau = str(chosen(cfg, "scheduler.scheduler._target_")).endswith("ReduceLROnPlateau")
    if plateau and chosen(cfg, "scheduler.monitor") is None:
        yield "scheduler.monitor=null but ReduceLROnPlateau watches a metric: say scheduler.monitor=val/loss or another"
    if chosen(cfg, "trainer") is not None:
        yield from impossible_devices(cfg.trainer)


def wrong_kinds(cfg: DictConfig) -> Iterator[str]:
    """Yield a line for each class that is none of those that Lightning takes in its place."""
    import pytorch_lightning as pl
    from pytorch_lightning.loggers import Logger

    from .config_check import locate

    kinds = {"data": pl.LightningDataModule, "model": pl.LightningModule, "trainer": pl.Trainer}
    for group, kind in (("callbacks", pl.Callback), ("logger", Logger)):
        kinds |= {f"{group}.{name}": kind for name in chosen(cfg, group) or {}}
    for key, kind in kinds.items():
        name = chosen(cfg, f"{key}._target_")
        target = None if name is None else locate(name)
        if isinstance(target, type) and not issubclass(target, kind):
            yield f"{key}._target_={name} must be a {kind.__name__} of pytorch_lightning"


def impossible_devices(trainer: Mapping[str, Any]) -> Iterator[str]:
    """Yield a line for each accelerator, strategy, number of devices or precision that cannot be had here."""
    from pytorch_lightning.accelerators import AcceleratorRegistry
    from pytorch_lightning.strategies import StrategyRegistry

    from .config_check import suggestion

    strategy = trainer.get("strategy")
    if isinstance(strategy, str) and strategy not in ("auto", *StrategyRegistry.available_strategies()):
        near = suggestion(strategy, StrategyRegistry.available_strategies())
        yield f"trainer.strategy={strategy} is no strategy of Lightning{near or '; use auto, ddp or fsdp'}"
    name = trainer.get("accelerator", "auto")
    names = ("auto", "gpu", *AcceleratorRegistry.available_accelerators())
    if name not in names:
        yield f"trainer.accelerator={name} is no accelerator of Lightning; use one of {', '.join(sorted(names))}"
        return
    candidates = GPUS if name in ("auto", "gpu") else (name,)
    found = next((each for each in candidates if AcceleratorRegistry[each]["accelerator"].is_available()), None)
    if found is None and name != "auto":
        yield f"trainer.accelerator={name} but PyTorch sees none on this machine; use cpu or auto"
        return
    devices = trainer.get("devices", "auto")
    count = 1 if found in (None, "cpu") else AcceleratorRegistry[found]["accelerator"].auto_device_count()
    if not (devices == "auto" or whole(devices, 1) or devices == -1 or names_devices(devices)):
        yield f"trainer.devices={devices} must be auto, a number of at least 1, or a list of numbers such as [0,1]"
    elif found in GPUS and whole(devices, count + 1):
        yield f"trainer.devices={devices} but this machine has {count} of {found}; use trainer.devices={count} or less"
    on_cpu = found in (None, "cpu")
    if on_cpu and str(trainer.get("precision")) in FP16:
        precision = trainer["precision"]
        yield f"trainer.precision={precision} needs a GPU; on the CPU use trainer.precision=bf16-mixed or 32-true"
    if on_cpu and trainer.get("sync_batchnorm"):
        yield "trainer.sync_batchnorm=true needs GPUs; on the CPU use trainer.sync_batchnorm=false"


def names_devices(devices: Any) -> bool:
    """Whether this is a list of device numbers, or the text of one: [0,1], "0,1", "2"."""
    parts = devices.split(",") if isinstance(devices, str) else devices
    return not isinstance(parts, (int, float, type(None))) and all(
        str(part).strip().isdigit() for part in parts if str(part).strip()
    )


def refused_by_torch(cfg: DictConfig) -> Iterator[str]:
    """Yield a line where torch's optimizer or scheduler, tried on a stand-in, does not take its values."""
    import torch
    from hydra.utils import instantiate

    from ..models.schedules import build_schedule

    key = "optimizer"
    if chosen(cfg, key) is None:
        return
    try:
        optimizer = instantiate(cfg.optimizer)([torch.nn.Parameter(torch.zeros(2, 2))])
        key = "scheduler.scheduler"
        if chosen(cfg, key) is not None:
            build_schedule(instantiate(cfg.scheduler.scheduler), optimizer, lambda: 100)
    except (TypeError, ValueError) as error:
        part = OmegaConf.select(cfg, key)
        if part._target_.startswith("torch.optim."):  # others may need a model of their own
            given = ", ".join(f"{key}.{name}={part[name]}" for name in part if not str(name).startswith("_"))
            yield f"{part._target_} does not take {given}: {error}"


def chosen(cfg: DictConfig, key: str) -> Any:
    """Return the value of a dotted key; None where it is absent, null, or does not resolve."""
    try:
        return OmegaConf.select(cfg, key)
    except OmegaConfBaseException:
        return None
