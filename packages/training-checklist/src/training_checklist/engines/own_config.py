"""The project's config as it is without any debug item."""

from hydra.core.global_hydra import GlobalHydra
from hydra.core.hydra_config import HydraConfig
from hydra.types import RunMode
from omegaconf import DictConfig, OmegaConf
from training_config.overrides import key_of
from training_config.walk import value_of, walk

from training_checklist.starting.arguments import is_group


def own_config() -> DictConfig | None:
    """Compose it once more; None where Hydra did not start this job, or overrides only mean something with an item."""
    return composed(typed())


def in_files(value: float) -> list[float]:
    """Return what the project's files say where the command line sets a key to this number instead."""
    given = typed()
    changed = [text for text in given if text.partition("=")[2] == str(value)]
    config = composed([text for text in given if text not in changed]) if changed else None
    if config is None:
        return []
    found = (OmegaConf.select(config, key_of(text), throw_on_resolution_failure=False) for text in changed)
    return [float(each) for each in found if isinstance(each, (int, float)) and not isinstance(each, bool)]


def bf16_in_files() -> bool:
    """Whether it is the project's files that ask for BF16, and not the command line."""
    if any("precision" in key_of(text) for text in typed()):
        return False
    values = (value_of(node, key) for _, node, key in walk(own_config() or OmegaConf.create()) if key == "precision")
    return any(str(value).startswith("bf16") for value in values)


def typed() -> list[str]:
    """Return the overrides of this job but for those of items; none where Hydra did not start it."""
    if not HydraConfig.initialized():
        return []
    # Not resolved: ${...} in them is of the composed config.
    overrides = OmegaConf.to_container(HydraConfig.get().overrides.task, resolve=False)
    return [text for text in overrides if not is_group(text)]


def composed(overrides: list[str]) -> DictConfig | None:
    """Compose the config with these overrides; None where that fails, or Hydra did not start this job."""
    if not (HydraConfig.initialized() and GlobalHydra.instance().is_initialized()):
        return None
    name = HydraConfig.get().job.config_name
    try:
        return GlobalHydra.instance().hydra.compose_config(name, overrides, run_mode=RunMode.RUN)
    except Exception:
        return None
