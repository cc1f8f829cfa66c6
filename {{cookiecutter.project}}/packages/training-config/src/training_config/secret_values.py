"""What in a config is a secret, and what is shown in its place.

What a secret is, the name of its key says. In a config its place is taken by `${oc.env:KEY}`, so that who reads the
config again takes it from the environment, or is told which variable is missing; in other texts by stars.
"""

import os
import re
from collections.abc import Iterable, Iterator
from typing import Any

from omegaconf import DictConfig, OmegaConf

from .walk import flat

SECRET = re.compile(
    r"(^|[._-])((api|access|auth|private|secret|account)[_-]?key|secret|token|pass(word|wd|phrase)|credentials?)$"
    r"|(^|\.)key$",
    re.IGNORECASE,
)
# Words of a vocabulary, not of an account.
HARMLESS = re.compile(r"(pad|bos|eos|unk|sep|cls|mask)_token$")
OVERRIDE = re.compile(r"(?P<sign>[+~]*)(?P<key>[\w.@/:-]+)=(?P<value>.*)", re.DOTALL)
ENTRY = re.compile(r"""(?P<key>[\w.-]+)(?P<colon>=|\s*:\s*)(?P<value>'[^']*'|"[^"]*"|[^,{}\[\]]+)""")
SHORTEST = 5  # characters of an environment variable's value that is looked for in texts: shorter ones are words


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


def secret_values(config: DictConfig) -> set[str]:
    """Return the secrets of a config and of this process's environment."""
    inside = {str(value) for key, value in flat(OmegaConf.to_container(config, resolve=False)) if is_secret(key, value)}
    around = {value for name, value in os.environ.items() if len(value) >= SHORTEST and is_secret(name, value)}
    return inside | around


def redact_text(text: str, secrets: Iterable[str]) -> str:
    """Return `text` with stars for every one of `secrets`, the longest first."""
    for secret in sorted(secrets, key=len, reverse=True):
        text = text.replace(secret, "***")
    return text


def redact_texts(content: Any, secrets: Iterable[str]) -> Any:
    """Return plain data with stars for every one of `secrets` in its texts; names and numbers stay."""
    if isinstance(content, dict):
        return {name: redact_texts(each, secrets) for name, each in content.items()}
    if isinstance(content, (list, tuple)):
        return [redact_texts(each, secrets) for each in content]
    return redact_text(content, secrets) if isinstance(content, str) else content
