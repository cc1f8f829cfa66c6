"""The run of Weights & Biases or MLflow that belongs to a run here, so that a resumed one goes on there, too."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from omegaconf import DictConfig, open_dict
from pytorch_lightning.loggers import Logger
from training_config.targets import locate
from training_config.walk import chosen

ARGUMENTS = {"WandbLogger": "id", "MLFlowLogger": "run_id"}  # by which a logger takes the id that it calls its version


def argument(kind: Any) -> str | None:
    """Return the argument that names the run of a class of loggers; None where it has no such run."""
    return next((ARGUMENTS[each.__name__] for each in getattr(kind, "__mro__", ()) if each.__name__ in ARGUMENTS), None)


def parts(cfg: DictConfig) -> Iterator[tuple[str, DictConfig]]:
    for name, part in (chosen(cfg, "logger") or {}).items():
        if part is not None:
            yield name, part


def ids(cfg: DictConfig, loggers: Sequence[Logger]) -> dict[str, str]:
    """Return the id by the name in `cfg.logger`, for each of the loggers, which are built from there in this order."""
    named = zip(parts(cfg), loggers, strict=False)  # a project may add more behind them
    found = {name: logger.version for (name, _), logger in named if argument(type(logger)) is not None}
    return {name: str(each) for name, each in found.items() if each is not None}


def go_on(cfg: DictConfig, ids: Mapping[str, str]) -> None:
    """Let the loggers of `cfg` go on with these runs, as far as it names no others."""
    for name, part in parts(cfg):
        key = argument(locate(part._target_)) if name in ids else None
        if key is not None and part.get(key) is None:
            with open_dict(part):
                part[key] = ids[name]
