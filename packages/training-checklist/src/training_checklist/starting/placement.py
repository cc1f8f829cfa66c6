"""Where an item's process writes: into a directory of the check's own, wherever the project's runs go.

The variable `OF_CHECKLIST` holds it, for whatever processes the item starts itself. The run gets a folder of its own
in it, which the project may empty.
"""

import json
import os
import re
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import ClassVar

from hydra import version
from hydra.core.hydra_config import HydraConfig
from omegaconf import DictConfig, OmegaConf, open_dict, read_write
from training_config.overrides import given, key_of, quoted

from training_checklist.ending import OF_CHECKLIST

JOB = "TRAINING_CHECKLIST_JOB"  # variable that holds an `Asked`
RUN = "run"  # in the directory of an item: that of its run


@dataclass(frozen=True)
class Asked:
    """Where the project's own command would have written.

    Args:
        raw: hydra.run.dir as it is written, "outputs/${now:%Y}", or hydra.sweep.subdir of a sweep's job.
        folder: what it comes to.
        typed: whether the command says so.
        in_sweep: whether it is a sweep's job.
        shared: whether an earlier job of the sweep has the same folder.
        now: what ${now:...} has come to, by its pattern: other keys may be made of it as hydra.run.dir is.
    """

    raw: str
    folder: Path
    typed: bool = False
    in_sweep: bool = False
    shared: bool = False
    now: dict[str, str] = field(default_factory=dict)

    current: ClassVar["Asked | None"] = None  # of this process, None where it writes where it was asked to

    def tell(self) -> None:
        """Let the processes that this one starts know it: a directory with the time in its name is another one then."""
        os.environ[JOB] = json.dumps(asdict(self), default=str)

    @classmethod
    def of(cls, config: DictConfig) -> "Asked":
        """Return it for a job that is about to start here."""
        typed = any(key_of(text) == "hydra.run.dir" for text in given(config, "hydra"))
        folder = directory(config)
        now = {pattern: text for (pattern,), text in OmegaConf.get_cache(config).get("now", {}).items()}
        return cls(raw_directory(config), folder, typed, now=now)


def changes_directory(config: DictConfig) -> bool:
    """Whether Hydra goes into the job's directory before it calls the program: by default, where its API is of 1.1."""
    chdir = config.hydra.job.chdir
    return not version.base_at_least("1.2") if chdir is None else chdir


def is_item() -> bool:
    """Whether this process runs items, which another one has started for that."""
    return OF_CHECKLIST in os.environ


def own_folder(config: DictConfig) -> Path:
    """Return where the check itself writes in a job: the item's directory, or that of the user's own run."""
    return Path(os.environ[OF_CHECKLIST] if is_item() else config.hydra.runtime.output_dir)


def settle(config: DictConfig) -> None:
    """Know when and where this item's command would have written, which writes into the check's directory."""
    told = json.loads(os.environ[JOB])
    Asked.current = Asked(**told | {"folder": Path(told["folder"])})
    OmegaConf.get_cache(config)["now"] = {(pattern,): text for pattern, text in Asked.current.now.items()}
    os.environ.setdefault("WANDB_MODE", "offline")  # a check is no run of the project's that others should see


def placed(config: DictConfig, folder: Path) -> list[str]:
    """Return the overrides that let a job of this config write into a folder."""
    return [f"{key}={quoted(str(folder))}" for key in keys_of_directory(config)]


def move(config: DictConfig, folder: Path) -> None:
    with read_write(config), open_dict(config), read_write(config.hydra), open_dict(config.hydra):
        for key in keys_of_directory(config):
            OmegaConf.update(config, key, str(folder))


def keys_of_directory(config: DictConfig) -> list[str]:
    """Return the keys that say where a run writes: Hydra's, and the project's own that Hydra's repeats."""
    raw = raw_directory(config) if Asked.current is None else Asked.current.raw
    repeated = re.fullmatch(r"\$\{([A-Za-z_][\w.]*)\}", raw)
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
