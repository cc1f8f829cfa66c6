"""What is wrong with a job beyond its config: values that Lightning refuses late, machines that lack a device, classes
in the wrong place."""

import os
import sys
from collections.abc import Iterator, Mapping
from importlib.util import find_spec
from pathlib import Path, PurePath
from typing import Annotated, Any, Literal

from omegaconf import DictConfig, OmegaConf
from pydantic import Field, FiniteFloat, NonNegativeInt, PositiveInt
from training_config.check import find_problems, shown
from training_config.errors import ConfigError
from training_config.near_names import suggestion
from training_config.processes import device_count
from training_config.targets import locate, targets
from training_config.uncollected_imports import uncollected_imports
from training_config.values import Fraction
from training_config.walk import chosen, value_of, walk

GPUS = ("cuda", "mps")
FP16 = ("16-mixed", "16-true", "16")
# Targets that import without the package that they need: module, and the project's extra that installs it.
EXTRAS = {
    "pytorch_lightning.loggers.WandbLogger": "wandb",
    "pytorch_lightning.loggers.MLFlowLogger": "mlflow",
    "training_runs.loggers.MLFlowLogger": "mlflow",
    "training_runs.loggers.TensorBoardLogger": "tensorboard",
}

Endless = Literal[-1] | PositiveInt  # -1: no end
Batches = Annotated[
    NonNegativeInt | Fraction | None, Field(title="a whole number of batches, or a share from 0.0 to 1.0")
]
Devices = Annotated[
    Literal["auto", -1]
    | PositiveInt
    | Annotated[str, Field(pattern=r"^ *\d+ *(, *\d+ *)*,? *$")]
    | Annotated[list[NonNegativeInt], Field(min_length=1)],
    Field(title="auto, a whole number of at least 1, or a list of numbers such as [0,1]"),
]
# Nothing with :// in it, which a Path would take for the name of a folder here.
Directory = Annotated[
    str, Field(pattern=r"^([^:]|:[^/]|:/[^/])*:?/?$", title="a directory (a mounted store's too, no address)")
]
# A rate of 0, which 1e-400 is too, changes no weight.
Rate = Annotated[float, Field(gt=0, allow_inf_nan=False)]
ClassWeights = list[Annotated[float, Field(ge=0, allow_inf_nan=False)]]
# What a process that loads data takes at least, measured with an empty data set (torch 2.15, Linux): memory of its own
# in bytes, and files that this process holds open for it. Those for training and for validation live at once.
WORKER_MEMORY, WORKER_FILES, LOADERS = 7 * 2**20, 5, 2
# Arguments that name a file or folder below another.
NAMES = {"callbacks": ("filename",), "logger": ("name", "version")}
DIRECTORIES = ("dirpath", "save_dir", "folder")  # arguments that name one
# Keys of train.yaml that are no arguments of a class.
KEYS = {
    "seed": Annotated[int, Field(ge=0, le=2**32 - 1)] | None,
    "fold": NonNegativeInt | None,
    "folds": PositiveInt,
    "monitor": Annotated[str, Field(min_length=1, title="the name of a metric, such as val/loss")],
    "mode": Literal["min", "max"],
    "test": bool,
    "figures": bool | Literal["each"],
    "no_progress_minutes": Annotated[float, Field(gt=0)] | None,
    "print_config": bool,
    "allow": list[str] | None,
    "checks": dict | None,
    "output_dir": str,
    "data_dir": str,
    "scheduler.interval": Literal["step", "epoch"],
    "scheduler.monitor": str | None,
    # A group's name without that group is a key of its own to Hydra: +debug=overfit would train, and check nothing.
    "debug": Annotated[
        dict | None, Field(title="an option of conf/debug, which training-checklist brings; install it")
    ],
}


def arguments() -> dict[type, dict[str, Any]]:
    """Return annotations of arguments whose ranges torch and Lightning check late, or not at all."""
    from pytorch_lightning import Trainer
    from pytorch_lightning.callbacks import EarlyStopping, ModelCheckpoint
    from torch.nn import CrossEntropyLoss, NLLLoss
    from torch.optim import Optimizer

    from training_runs.checkpoints.last_checkpoint import LastCheckpoint

    return {
        Trainer: {
            "devices": Devices,
            "num_nodes": PositiveInt,
            "max_epochs": Endless | None,
            "max_steps": Endless,
            "accumulate_grad_batches": PositiveInt,
            "gradient_clip_val": Annotated[float, Field(ge=0)] | None,
            "log_every_n_steps": PositiveInt | None,
            "limit_train_batches": Batches,
            "limit_val_batches": Batches,
            "limit_test_batches": Batches,
        },
        ModelCheckpoint: {
            "save_top_k": Annotated[int, Field(ge=-1, title="a whole number, -1 for all")],
            "every_n_epochs": NonNegativeInt | None,
            "dirpath": Directory | None,
        },
        LastCheckpoint: {"dirpath": Directory},
        Optimizer: dict.fromkeys(("momentum", "weight_decay"), FiniteFloat) | {"lr": Rate},
        EarlyStopping: {"patience": NonNegativeInt},
        NLLLoss: {"weight": ClassWeights | None},
        CrossEntropyLoss: {
            "weight": ClassWeights | None,
            "label_smoothing": Fraction,
            "reduction": Annotated[Literal["mean", "sum"], Field(title="mean or sum: training needs one number")],
        },
    }


@uncollected_imports()
def check_job(cfg: DictConfig, trains: bool = True) -> None:
    """Check the config as `training_config.check` does, then what it asks of this machine, torch and Lightning.

    Args:
        cfg: a composed config.
        trains: False where it will not train on this machine: devices and directories are not looked at then.

    Raises:
        ConfigError: with one line for each problem.
    """
    # What is not installed comes first: a class that builds on it cannot even be looked at.
    problems = [*lacking_packages(cfg)] or [*find_problems(cfg, KEYS, arguments())]
    if trains:
        problems = problems or [*impossible(cfg)]
    problems = problems or [*refused_by_torch(cfg)]
    if problems:
        raise ConfigError("\n".join(problems))


def lacking_packages(cfg: DictConfig) -> Iterator[str]:
    """Yield a line for each target that needs a package which is not installed."""
    for key, _ in targets(cfg):
        name = chosen(cfg, f"{key}._target_")
        extra = EXTRAS.get(name) if isinstance(name, str) else None
        if extra is not None and find_spec(extra) is None:
            yield f"{key}._target_={name} needs {extra}; install it with: pip install -e '.[{extra}]'"


def impossible(cfg: DictConfig) -> Iterator[str]:
    """Yield a line for each combination that this machine or these parts cannot do."""
    for group in ("callbacks", "logger"):
        for name, part in (chosen(cfg, group) or {}).items():
            if part is not None and chosen(cfg, f"{group}.{name}._target_") is None:
                yield f"{group}.{name}={part} has no _target_; name a class with {group}.{name}._target_=..., or null"
    for group in ("data", "model", "trainer"):
        if chosen(cfg, f"{group}._target_") is None:
            yield (
                f"{group} has no _target_; name a class in its config (_target_: package.module.Class), "
                f"or choose an option of conf/{group}"
            )
    if chosen(cfg, "fold") is not None and chosen(cfg, "data.fold") is None:
        yield f"fold={cfg.fold} chooses nothing: data takes no fold; see cross-validation in docs/sweeps.md"
    for key in ("criterion", "optimizer", "scheduler.scheduler"):
        part = chosen(cfg, key)
        if part is not None and chosen(cfg, f"{key}._target_") is None:
            yield f"{key}={shown(part, key)} has no _target_; choose an option of conf/{key.partition('.')[0]}"
    yield from wrong_kinds(cfg)
    yield from leaving_names(cfg)
    yield from no_directories(cfg)
    for name in ("num_classes", "image_shape"):
        ours, theirs = chosen(cfg, f"model.net.{name}"), chosen(cfg, f"data.{name}")
        if None not in (ours, theirs) and ours != theirs:
            yield f"model.net.{name}={ours} but data.{name}={theirs}; they must be the same"
    weights, classes = chosen(cfg, "criterion.weight"), chosen(cfg, "data.num_classes")
    if OmegaConf.is_list(weights) and classes is not None and len(weights) != classes:
        yield f"criterion.weight has {len(weights)} numbers but data.num_classes={classes}; give one for each class"
    folder = chosen(cfg, "output_dir")
    if folder is not None and not (os.path.isdir(folder) and os.access(folder, os.W_OK)):
        yield f"output_dir={folder} is no directory to write to; leave it, and say hydra.run.dir=... to place a run"
    plateau = str(chosen(cfg, "scheduler.scheduler._target_")).endswith("ReduceLROnPlateau")
    if plateau and chosen(cfg, "scheduler.monitor") is None:
        yield "scheduler.monitor=null but ReduceLROnPlateau watches a metric: say scheduler.monitor=val/loss or another"
    workers, most = chosen(cfg, "data.num_workers"), most_workers()
    if workers is not None and workers > most:
        yield (
            f"data.num_workers={workers} but this machine can hold {most} at most, by its memory and the files that a "
            f"process may open; use data.num_workers={cores()}, one for each CPU core, or less"
        )
    for unit in ("epochs", "steps"):
        least, most = (chosen(cfg, f"trainer.{which}_{unit}") for which in ("min", "max"))
        if None not in (least, most) and least > most != -1:
            yield f"trainer.min_{unit}={least} is more than trainer.max_{unit}={most}; raise the one or lower the other"
    if chosen(cfg, "trainer") is not None:
        yield from impossible_devices(cfg.trainer)


def leaving_names(cfg: DictConfig) -> Iterator[str]:
    """Yield a line for each name of a file or folder that leads out of the directory that it is to lie in."""
    for group, names in NAMES.items():
        for part in chosen(cfg, group) or {}:
            for argument in names:
                name = chosen(cfg, f"{group}.{part}.{argument}")
                path = PurePath(str(name).replace("\\", "/"))
                if isinstance(name, str) and (path.is_absolute() or ".." in path.parts):
                    yield f"{group}.{part}.{argument}={name} leads out of its directory; use a name without / and .."


def no_directories(cfg: DictConfig) -> Iterator[str]:
    """Yield a line for each directory of a callback or logger that a file is in the place of, or above."""
    for key, parent, name in walk(cfg):
        value = value_of(parent, name) if name in DIRECTORIES and key.startswith(("callbacks.", "logger.")) else None
        if isinstance(value, str):
            there = next(each for each in (Path(value), *Path(value).absolute().parents) if os.path.lexists(each))
            if not (there.is_dir() and os.access(there, os.W_OK)):
                yield f"{key}={shown(value, key)} is no directory to write to, since {there} is none; name another"


def wrong_kinds(cfg: DictConfig) -> Iterator[str]:
    """Yield a line for each class that is none of those that Lightning takes in its place."""
    import pytorch_lightning as pl
    from pytorch_lightning.loggers import Logger

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
    if found in GPUS and isinstance(devices, int) and devices > count:
        yield f"trainer.devices={devices} but this machine has {count} of {found}; use trainer.devices={count} or less"
    on_cpu = found in (None, "cpu")
    most = max(2, cores())  # trainer=ddp starts two on a machine without a GPU, whatever that has
    if on_cpu and device_count(trainer) > most:
        yield (
            f"trainer.devices={devices} but this machine has {cores()} CPU cores, and every process needs one; "
            f"use trainer.devices={most} or less"
        )
    if on_cpu and str(trainer.get("precision")) in FP16:
        precision = trainer["precision"]
        yield f"trainer.precision={precision} needs a GPU; on the CPU use trainer.precision=bf16-mixed or 32-true"
    if on_cpu and trainer.get("sync_batchnorm"):
        yield "trainer.sync_batchnorm=true needs GPUs; on the CPU use trainer.sync_batchnorm=false"


def most_workers() -> int:
    """Return how many processes that load data the operating system can give this one; Windows does not say."""
    if sys.platform == "win32":
        return sys.maxsize
    import resource

    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    most = sys.maxsize if files == resource.RLIM_INFINITY else files // WORKER_FILES
    return min(memory // WORKER_MEMORY, most) // LOADERS


def cores() -> int:
    """Return how many CPU cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def refused_by_torch(cfg: DictConfig) -> Iterator[str]:
    """Yield a line where torch's optimizer or scheduler, tried on a stand-in, does not take its values."""
    import torch
    from hydra.utils import instantiate

    from training_runs.schedules import build_schedule

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
        if str(part.get("_target_")).startswith("torch.optim."):  # others may need a model of their own
            given = ", ".join(f"{key}.{name}={part[name]}" for name in part if not str(name).startswith("_"))
            yield f"{part._target_} does not take {given}: {error}"
