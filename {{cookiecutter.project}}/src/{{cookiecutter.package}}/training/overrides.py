"""The command line of this job, as Hydra took it apart."""

from hydra.core.hydra_config import HydraConfig
from omegaconf import OmegaConf

from .redaction import redact_override


def task_overrides() -> list[str]:
    """Return the overrides of this job as they were given, without secrets; none outside a Hydra application."""
    return [redact_override(text) for text in _overrides("task")] if HydraConfig.initialized() else []


def same_job(*further: str) -> list[str]:
    """Return the arguments that make `hydra.main` compose this very job with `further` overrides, in its directory."""
    hydra = HydraConfig.get()
    arguments = ["--config-name", hydra.job.config_name]
    for source in hydra.runtime.config_sources:
        if source.provider == "main":
            arguments += ["--config-path", source.path]
        elif source.provider == "command-line":
            arguments += ["--config-dir", source.path]
    sweep_only = ("hydra.mode", "hydra.run", "hydra.sweep", "hydra/sweeper", "hydra.launcher", "hydra/launcher")
    settings = [text for text in _overrides("hydra") if not text.lstrip("+~").startswith(sweep_only)]
    if not OmegaConf.is_missing(hydra.job, "num"):  # in a sweep
        settings += [f"hydra.job.num={hydra.job.num}", f"hydra.job.id={hydra.job.id}"]
    folder = hydra.runtime.output_dir.replace("\\", "\\\\").replace("'", "\\'")
    # This process has resolved the time in the directory's name, and has written .hydra.
    return [
        *arguments,
        *_overrides("task"),
        *further,
        *settings,
        f"hydra.run.dir='{folder}'",
        "hydra.output_subdir=null",
    ]


def _overrides(kind: str) -> list[str]:
    # Not resolved: an override's text may hold an interpolation.
    return OmegaConf.to_container(HydraConfig.instance().cfg.hydra.overrides[kind], resolve=False)
