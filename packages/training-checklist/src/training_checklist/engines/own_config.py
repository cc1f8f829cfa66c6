"""The project's config as it is without any debug item."""

from hydra.core.global_hydra import GlobalHydra
from hydra.core.hydra_config import HydraConfig
from hydra.types import RunMode
from omegaconf import DictConfig, OmegaConf

from training_checklist.starting.arguments import is_group


def own_config() -> DictConfig | None:
    """Compose it once more; None where Hydra did not start this job, or overrides only mean something with an item."""
    if not (HydraConfig.initialized() and GlobalHydra.instance().is_initialized()):
        return None
    job = HydraConfig.get().job
    typed = OmegaConf.to_container(HydraConfig.get().overrides.task, resolve=False)  # ${...} in them is of the composed
    own = [text for text in typed if not is_group(text)]
    try:
        return GlobalHydra.instance().hydra.compose_config(job.config_name, own, run_mode=RunMode.RUN)
    except Exception:
        return None
