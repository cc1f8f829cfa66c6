"""Keeps secrets out of what a run writes: config, overrides, record, hyperparameters and log.

What a secret is, the name of its key says. In files its place is taken by `${oc.env:KEY}`, so that who reads the config
again takes it from the environment, or is told which variable is missing. Imported at start-up: nothing heavy here.
"""

import logging
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml
from hydra.core.utils import JobReturn
from hydra.experimental.callback import Callback
from omegaconf import DictConfig, OmegaConf

SECRET = re.compile(
    r"(^|[._-])((api|access|auth|private|secret|account)[_-]?key|secret|token|pass(word|wd|phrase)|credentials?)$"
    r"|(^|\.)key$",
    re.IGNORECASE,
)
# Words of a vocabulary, not of an account.
HARMLESS = re.compile(r"(pad|bos|eos|unk|sep|cls|mask)_token$")
OVERRIDE = re.compile(r"(?P<sign>[+~]*)(?P<key>[\w.@/:-]+)=(?P<value>.*)", re.DOTALL)
ENTRY = re.compile(r"""(?P<key>[\w.-]+)(?P<colon>=|\s*:\s*)(?P<value>'[^']*'|"[^"]*"|[^,{}\[\]]+)""")
# OmegaConf reads numbers otherwise and takes ten times as long: only what is written anew is read by it.
LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
SHORTEST = 8  # characters of an environment variable's value that is looked for in texts: less is found by chance


def is_secret(key: str, value: Any) -> bool:
    """Whether `value` must not be written: text or a number under a telling name, and no reference to elsewhere."""
    if isinstance(value, bool) or not isinstance(value, (str, int)) or value == "":
        return False
    referred = isinstance(value, str) and (value.startswith("${") or value in ("null", "???"))
    return not referred and bool(SECRET.search(key)) and not HARMLESS.search(key)


def reference(key: str) -> str:
    """Return the interpolation that takes a secret's place: logger.wandb.api_key -> ${oc.env:LOGGER_WANDB_API_KEY}."""
    return "${oc.env:" + re.sub(r"[^A-Z0-9]", "_", key.upper()) + "}"


def redact_override(text: str) -> str:
    """Return a command line's `key=value` without the secrets in it, those of a dictionary included."""
    override = OVERRIDE.fullmatch(text)
    if override is None:
        return text
    key, value = override["key"], override["value"]
    if is_secret(key, value):
        return f"{override['sign']}{key}={reference(key)}"
    if not value.startswith("{"):
        return text

    def entry(match: re.Match) -> str:
        name = f"{key}.{match['key']}"
        hidden = reference(name) if is_secret(name, match["value"]) else match["value"]
        return f"{match['key']}{match['colon']}{hidden}"

    return f"{override['sign']}{key}={ENTRY.sub(entry, value)}"


def redact(value: Any, key: str = "") -> Any:
    """Return plain data without the secrets in it. `key` is where it stands in its config."""
    if isinstance(value, dict):
        return {name: redact(each, f"{key}.{name}" if key else str(name)) for name, each in value.items()}
    if isinstance(value, list):
        return [redact(each, key) for each in value]
    if is_secret(key, value):
        return reference(key)
    if isinstance(value, str) and key.endswith("override_dirname"):  # overrides without their signs, joined by commas
        return redact_text(value, {secret for _, secret in pairs(value)})
    # Lists of overrides: of a job's own file, which has no keys, or within hydra.overrides.
    return redact_override(value) if isinstance(value, str) and (not key or "hydra.overrides" in key) else value


def pairs(text: str) -> Iterator[tuple[str, str]]:
    """Yield (key, value) of each secret in an override's text, at whatever depth."""
    for match in ENTRY.finditer(text):
        if is_secret(match["key"], match["value"]):
            yield match["key"], match["value"].strip("'\"")


def redact_file(path: Path) -> None:
    """Replace a YAML file by one without secrets; one that has none is not touched."""
    if not path.is_file():
        return
    plain = yaml.load(path.read_text(encoding="utf-8"), Loader=LOADER)
    if redact(plain) != plain:
        content = OmegaConf.to_container(OmegaConf.load(path), resolve=False)
        draft = path.with_name(f".{path.name}.{os.getpid()}")
        OmegaConf.save(OmegaConf.create(redact(content)), draft)
        draft.replace(path)


def secret_values(cfg: DictConfig) -> set[str]:
    """Return the secrets of a config and of this process's environment."""
    inside = {str(value) for key, value in leaves(OmegaConf.to_container(cfg, resolve=False)) if is_secret(key, value)}
    around = {value for name, value in os.environ.items() if len(value) >= SHORTEST and is_secret(name, value)}
    return inside | around


def leaves(value: Any, key: str = "") -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict):
        for name, each in value.items():
            yield from leaves(each, f"{key}.{name}" if key else str(name))
    elif isinstance(value, list):
        for each in value:
            yield from leaves(each, key)
    else:
        yield key, value


def redact_text(text: str, secrets: set[str]) -> str:
    """Return `text` with stars for every one of `secrets`."""
    for secret in sorted(secrets, key=len, reverse=True):
        text = text.replace(secret, "***")
    return text


class RedactingFormatter(logging.Formatter):
    """What another formatter makes of a record, without secrets."""

    def __init__(self, formatter: logging.Formatter, secrets: set[str]) -> None:
        super().__init__()
        self.formatter = formatter
        self.secrets = secrets

    def format(self, record: logging.LogRecord) -> str:
        return redact_text(self.formatter.format(record), self.secrets)


class Redaction(Callback):
    """Hydra's callback that takes secrets out of what Hydra itself writes and prints."""

    def on_job_start(self, config: DictConfig, **kwargs: Any) -> None:
        secrets = secret_values(config)
        for handler in logging.getLogger().handlers if secrets else ():
            handler.setFormatter(RedactingFormatter(handler.formatter or logging.Formatter(), secrets))
        if config.hydra.output_subdir is not None:
            for path in Path(config.hydra.runtime.output_dir, config.hydra.output_subdir).glob("*.yaml"):
                redact_file(path)
        redact_file(Path(config.hydra.sweep.dir, "multirun.yaml"))

    def on_job_end(self, config: DictConfig, job_return: JobReturn, **kwargs: Any) -> None:
        job_return.overrides = [redact_override(text) for text in job_return.overrides]
