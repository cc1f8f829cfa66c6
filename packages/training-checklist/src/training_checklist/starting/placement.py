"""Where an item's process writes: into a directory of the check's own, wherever the project's runs go.

The variable `OF_CHECKLIST` holds it, for whatever processes the item starts itself.
"""

import json
import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from hydra.core.hydra_config import HydraConfig
from omegaconf import DictConfig, OmegaConf, open_dict, read_write

from training_checklist.ending import OF_CHECKLIST


OF_SWEEP = "TRAINING_CHECKLIST_JOB"  # variable that holds an `Asked` of a sweep's job


@dataclass(frozen=True)
class Asked:
    """Where the project's own command would have written.

    Args:
        raw: hydra.run.dir as it is written, "outputs/${now:%Y}", or hydra.sweep.subdir of a sweep's job.
        folder: what it comes to.
        in_sweep: whether it is a sweep's job.
        shared: whether an earlier job of the sweep has the same folder.
    """

    raw: str
    folder: Path
    in_sweep: bool = False
    shared: bool = False

    current: ClassVar["Asked | None"] = None  # of this process, None where it writes where it was asked to


def is_item() -> bool:
    """Whether this process runs items, which another one has started for that."""
    return OF_CHECKLIST in os.environ


def place(config: DictConfig) -> None:
    """Let a job that is about to start write into the check's directory."""
    if OF_SWEEP in os.environ:
        raw, folder, shared = json.loads(os.environ[OF_SWEEP])
        Asked.current = Asked(raw, Path(folder), True, shared)
    else:
        Asked.current = Asked(raw_directory(config), directory(config))
    os.environ.setdefault("WANDB_MODE", "offline")  # a check is no run of the project's that others should see
    move(config, Path(os.environ[OF_CHECKLIST]))


def move(config: DictConfig, folder: Path) -> None:
    with read_write(config), open_dict(config), read_write(config.hydra), open_dict(config.hydra):
        for key in keys_of_directory(config):
            OmegaConf.update(config, key, str(folder))


def keys_of_directory(config: DictConfig) -> list[str]:
    """Return the keys that say where a run writes: Hydra's, and the project's own that Hydra's repeats."""
    repeated = re.fullmatch(r"\$\{([A-Za-z_][\w.]*)\}", raw_directory(config))
    own = [repeated[1]] if repeated is not None and not repeated[1].startswith("hydra") else []
    return ["hydra.run.dir", *(key for key in own if isinstance(OmegaConf.select(config, key, default=None), str))]


def raw_directory(config: DictConfig) -> str:
    return str(OmegaConf.to_container(config.hydra.run, resolve=False)["dir"])


def directory(config: DictConfig) -> Path:
    """Return the absolute path of the directory that Hydra would give to this job."""
    before = HydraConfig.instance().cfg
    HydraConfig.instance().set_config(config)  # ${hydra:job.name} asks it
    try:
        return Path(str(OmegaConf.select(config, "hydra.run.dir"))).absolute()
    finally:
        HydraConfig.instance().cfg = before
