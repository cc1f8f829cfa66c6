"""The command line of this job, as Hydra took it apart."""

import re

from hydra.core.hydra_config import HydraConfig
from omegaconf import DictConfig, OmegaConf

from .secret_values import redact_override

# Settings of Hydra that say where a job or a sweep lies and who starts it, not what the job is.
PLACEMENT = ("hydra.mode", "hydra.run", "hydra.sweep", "hydra/sweeper", "hydra.launcher", "hydra/launcher")
# They start nothing, and stand in the place of one that the project's config asks for and that is not installed here.
AT_HAND = ("hydra/sweeper=basic", "hydra/launcher=basic")


def key_of(override: str) -> str:
    return override.lstrip("+~").partition("=")[0]


def task_overrides() -> list[str]:
    """Return the overrides of this job as they were given, without secrets; none outside a Hydra application."""
    if not HydraConfig.initialized():
        return []
    return [redact_override(text) for text in given(HydraConfig.instance().cfg, "task")]


def given(config: DictConfig, kind: str) -> list[str]:
    """Return the overrides of a job's whole config: those of `kind` task, or those of hydra."""
    # Not resolved: an override's text may hold an interpolation.
    return OmegaConf.to_container(config.hydra.overrides[kind], resolve=False)


def job_settings(config: DictConfig) -> list[str]:
    """Return the overrides of Hydra's own settings, without those that place a job or start a sweep."""
    settings = given(config, "hydra")
    return [text for text in settings if text in AT_HAND or not key_of(text).startswith(PLACEMENT)]


def same_job(*further: str) -> list[str]:
    """Return the arguments that make `hydra.main` compose this very job with `further` overrides, in its directory."""
    config = HydraConfig.instance().cfg
    hydra = config.hydra
    arguments = ["--config-name", hydra.job.config_name]
    for source in hydra.runtime.config_sources:
        if source.provider == "main":
            arguments += ["--config-path", source.path]
        elif source.provider == "command-line":
            arguments += ["--config-dir", source.path]
    settings = job_settings(config)
    if not OmegaConf.is_missing(hydra.job, "num"):  # in a sweep
        settings += [f"hydra.job.num={hydra.job.num}", f"hydra.job.id={hydra.job.id}"]
    # This process has resolved the time in the directory's name, and has written .hydra.
    place = [f"hydra.run.dir={quoted(hydra.runtime.output_dir)}", "hydra.output_subdir=null"]
    return [*arguments, *given(config, "task"), *further, *settings, *place]


def quoted(text: str) -> str:
    """Return a text as an override's value, whatever is in it."""
    # A backslash is one except before a quote, where it has to be doubled.
    return "'" + re.sub(r"(\\*)('|$)", lambda found: found[1] * 2 + ("\\'" if found[2] else ""), text) + "'"
