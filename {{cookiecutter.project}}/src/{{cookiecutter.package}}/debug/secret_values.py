"""Keeps secrets out of what checks show. A module of its own here, for this package goes into other projects too."""

import os
import re
from typing import Any

from omegaconf import DictConfig, OmegaConf

# Names end like this: logger.wandb.api_key, HF_TOKEN, password. `pad_token` and its kind are words of a vocabulary.
SECRET = re.compile(
    r"(^|[._-])((api|access|auth|private|secret|account)[_-]?key|secret|(?<!(pad|bos|eos|unk|sep|cls)_)"
    r"(?<!mask_)token|pass(word|wd|phrase)|credentials?)$",
    re.IGNORECASE,
)
ENTRY = re.compile(r"([\w.-]+)(=|\s*:\s*)([^,{}\[\]]+)")  # of an override: key=value, or key: value within {}
SHORTEST = 5  # characters of a secret: what is shorter stands in texts by chance


def secret_values(config: DictConfig) -> set[str]:
    """Return the values in a config and in the environment whose names say that they are secrets."""
    found = {value for key, value in leaves(OmegaConf.to_container(config, resolve=False)) if SECRET.search(key)}
    found |= {value for name, value in os.environ.items() if SECRET.search(name)}
    return {value for value in found if len(value) >= SHORTEST and not value.startswith("${")}


def leaves(value: Any, key: str = "") -> list[tuple[str, str]]:
    """Return the texts and numbers of plain data, each with the last part of its key."""
    if isinstance(value, dict):
        return [leaf for name, each in value.items() for leaf in leaves(each, str(name))]
    if isinstance(value, list):
        return [leaf for each in value for leaf in leaves(each, key)]
    return [(key, str(value))] if isinstance(value, (str, int)) and not isinstance(value, bool) else []


def starred(text: str, secrets: set[str]) -> str:
    """Return `text` with stars for every one of `secrets`."""
    for secret in sorted(secrets, key=len, reverse=True):
        text = text.replace(secret, "***")
    return text


def shown_override(text: str) -> str:
    """Return a word of a command line, with stars for each value whose key names a secret."""
    return ENTRY.sub(lambda entry: f"{entry[1]}{entry[2]}***" if SECRET.search(entry[1]) else entry[0], text)
