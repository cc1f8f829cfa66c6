"""What in a config is a secret, and what is shown in its place.

What a secret is, the name of its key says: all that stands below a key of `NAMES`; or its form: the password within an
address, what it has after `?sig=`, the credentials of a header. In a config its place is taken by `${oc.env:KEY}`, so
that who reads the config again takes it from the environment, or is told which variable is missing. What we write is
masked as a structure, before it becomes text; texts of others, such as log lines and messages of exceptions, have the
secret's value replaced by stars.
"""

import html
import json
import os
import re
import urllib.parse
from collections.abc import Iterable, Iterator
from fnmatch import fnmatchcase
from functools import lru_cache
from typing import Any

from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import ChoiceSweep, Override, QuotedString
from hydra.errors import HydraException
from omegaconf import DictConfig, OmegaConf

from .walk import flat, value_of, walk

# Patterns of names in snake_case: a key is brought to it first, so that accessToken, ACCESS-TOKEN and access_token
# are one. `add_names` adds those of a project.
NAMES = """
    *token *api_tokens *access_tokens *auth_tokens *bearer *jwt *secret *secrets
    *password *passwords *passwd *passphrase *passcode *pwd *credential *credentials *creds
    pass *_pass pw *_pw pat *_pat otp *_otp tokens *sessionid *session_id
    auth *_auth *oauth *authorization *cookie key *api_key *api_keys *apikey *access_key *access_keys *access_key_id
    *account_key *auth_key *encryption_key *private_key *secret_key *signing_key *ssh_key
    *connection_string *dsn *webhook *webhook_url
""".split()  # noqa: SIM905, a literal would take forty lines
# Words of a vocabulary, not of an account.
HARMLESS = [f"*{word}_token" for word in "pad bos eos unk sep cls class mask start end stop image per next".split()]  # noqa: SIM905
PARAMETERS = ["sig", "signature", "*_signature"]  # of addresses besides: whoever has one is let in
# Parts of a node that Hydra builds an object of; no secret, and without them nothing can be built again.
BUILDING = {"_target_", "_partial_", "_recursive_", "_convert_", "_mode_"}
SHELL = {"PWD", "OLDPWD"}  # variables with the working directory

# Values that say where something is. Others, such as oc.env with a default, or oc.decode, hold it themselves.
REFERENCE = re.compile(
    r"\$\{(?!oc\.(env|decode|create|deprecated):)[^{}]*\}|\$\{oc\.env:[^{},]*(,\s*(null|''|\"\")\s*)?\}"
)
WITH_DEFAULT = re.compile(r"(?P<reference>\$\{oc\.env:[^{},]*),(?P<default>.*)\}", re.DOTALL)
# What texts hold by their form, each with the secret as the group that matches:
FORMS = (
    # scheme://user:password@host; of the web also scheme://token@host. Greedy: a password may hold an @ of its own.
    re.compile(r"[a-z][a-z0-9+.-]*://[^\s/?#:@]*:([^\s/?#]+)@|https?://([^\s/?#:@]+)@", re.IGNORECASE),
    # user:password@host without a scheme; python:3.12@sha256:... is an image of containers.
    re.compile(r"(?<![\w/:.+@{-])(?!mailto:)[\w.+-]+:([^\s/@:]+)@(?!sha256:)\w"),
    # Authorization: Bearer ..., also without the name of the header. No scheme is as long as what follows it.
    re.compile(r"\bAuthorization['\"]?\s*[:=]\s*['\"]?(?:[a-z]{1,9}\s+)?([^\s,'\"]+)", re.IGNORECASE),
    re.compile(r"\bBearer\s+([\w.~+/-]{8,}=*)", re.IGNORECASE),
)
PARAMETER_OF_URL = re.compile(r"[?&;]([\w.-]+)=([^\s&;#'\"]+)")
SIGNS = re.compile("[@:= ]")  # without any of them a text has no such form
# A header or a variable, as lists of them have it: X-Api-Key: ..., GITHUB_PAT=...
NAMED = re.compile(r"\s*([\w-]+)\s*[:=]\s*(\S.*)", re.DOTALL)

SHORTEST = 5  # characters of a value from the environment, where shorter ones are words and switches
WORD = 4  # below as many characters a secret of a config is masked as a whole word only, not within others
SWITCHES = {"true", "false", "none", "null"}

_added: list[str] = []


def add_names(names: Iterable[str]) -> None:
    """Add patterns of names whose values are secrets in this process, such as `pin` or `*_session`."""
    fresh = [snake_case(name, keep="*?[]!") for name in names]
    if not set(fresh) <= set(_added):
        _added.extend(name for name in fresh if name not in _added)
        for cached in (names_secret, redact_override):
            cached.cache_clear()


def snake_case(name: str, keep: str = "") -> str:
    """Return accessToken, ACCESS-TOKEN and access_token2 as access_token."""
    parted = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name)
    return re.sub(rf"[^a-z{re.escape(keep)}]+", "_", parted.lower()).strip("_")


@lru_cache(maxsize=4096)
def names_secret(key: str) -> bool:
    """Whether a dotted key, or one that it stands below, has a telling name."""
    parts = re.split(r"[./@:]", key)
    if parts[-1] in BUILDING:
        return False
    names = [snake_case(part) for part in parts]
    return any(
        any(fnmatchcase(name, pattern) for pattern in (*NAMES, *_added))
        and not any(fnmatchcase(name, pattern) for pattern in HARMLESS)
        for name in names
    )


def is_secret(key: str, value: Any) -> bool:
    """Whether `value` must not be written: text or a number under a telling name, or a URL with a password."""
    return any(True for _ in secrets_in(key, value))


def secrets_in(key: str, value: Any) -> Iterator[str]:
    """Yield what of a value must be seen nowhere; nothing of one that only refers to elsewhere.

    A number of fewer digits than `WORD` is a switch, whatever it is called, and a number of tokens a count.
    """
    if value is None or isinstance(value, bool) or value in ("", "???", "null"):
        return
    if isinstance(value, str):
        yield from (secret for secret in secrets_of_text(value) if "${" not in secret)
    elif not isinstance(value, (int, float)) or len(str(value)) < WORD or key.endswith("tokens"):
        return
    if not names_secret(key) or (isinstance(value, str) and REFERENCE.fullmatch(value)):
        return
    default = WITH_DEFAULT.fullmatch(value) if isinstance(value, str) else None
    yield str(value) if default is None else default["default"].strip().strip("'\"")


def secrets_of_text(text: str) -> Iterator[str]:
    """Yield what a text holds of secrets by its form, whatever its key is called."""
    if SIGNS.search(text) is None:
        return
    for form in FORMS:
        for match in form.finditer(text):
            yield next(group for group in match.groups() if group is not None)
    for name, value in PARAMETER_OF_URL.findall(text):
        if names_secret(name) or any(fnmatchcase(snake_case(name), pattern) for pattern in PARAMETERS):
            yield value
    named = NAMED.fullmatch(text)
    if named is not None and names_secret(named[1]) and named[1].lower() != "authorization":
        yield named[2].strip()


def reference(key: str, value: Any = None) -> str:
    """Return the interpolation that takes a secret's place: logger.wandb.api_key -> ${oc.env:LOGGER_WANDB_API_KEY}.

    Where `value` names a variable already, and has the secret as its default, it is that variable.
    """
    default = WITH_DEFAULT.fullmatch(value) if isinstance(value, str) else None
    if default is not None:
        return default["reference"] + "}"
    return "${oc.env:" + re.sub(r"[^A-Z0-9]+", "_", key.upper()).strip("_") + "}"


def redact(value: Any, key: str = "") -> Any:
    """Return plain data without the secrets in it. `key` is where it stands in its config.

    Lists of overrides, as Hydra's own files have them, are known by their place: in `hydra.overrides`, or at the top.
    """
    if isinstance(value, dict):
        return {name: redact(each, f"{key}.{name}" if key else str(name)) for name, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [redact(each, key) for each in value]
    text = unquoted(value)
    if isinstance(text, str) and is_place_of_overrides(key) and parsed(text) is not None:
        return redact_override(text)
    return reference(key, text) if is_secret(key, text) else value


def is_place_of_overrides(key: str) -> bool:
    return not key or "hydra.overrides" in key


def unquoted(value: Any) -> Any:
    """Return the text of what an override has in quotes; everything else as it is."""
    return value.text if isinstance(value, QuotedString) else value


@lru_cache(maxsize=1024)
def redact_override(text: str) -> str:
    """Return a command line's `key=value` without the secrets in it, at whatever depth of its value."""
    override = parsed(text)
    if override is None:
        name, assigned, value = text.partition("=")
        key = name.lstrip("+~-")
        return f"{name}={reference(key)}" if assigned and is_secret(key, value) else text
    given = values_of(override)
    kept = [redact(each, override.key_or_group) for each in given]
    if kept == given:
        return text
    values = dict.fromkeys(as_written(each) for each in kept)  # those of a sweep share a variable
    return f"{override.get_key_element()}={','.join(values)}"


@lru_cache(maxsize=1024)
def parsed(text: str) -> Override | None:
    """Return what Hydra makes of an override, or None of what is none, such as an option of the command line."""
    if text.startswith("-") or "=" not in text:
        return None
    try:
        return OverridesParser.create().parse_override(text)
    except HydraException:
        return None


def values_of(override: Override) -> list[Any]:
    """Return the value of an override, or those of a sweep."""
    return list(override._value.list) if isinstance(override._value, ChoiceSweep) else [override._value]


def as_written(value: Any) -> str:
    """Return a value as an override has it."""
    if isinstance(value, dict):
        return f"{{{', '.join(f'{name}: {as_written(each)}' for name, each in value.items())}}}"
    if isinstance(value, list):
        return f"[{', '.join(map(as_written, value))}]"
    if isinstance(value, str) and value.startswith("${"):
        return value
    return Override._get_value_element_as_str(value)


def found_in(content: Any, key: str = "") -> Iterator[str]:
    """Yield every secret in plain data, those in its lists of overrides included."""
    for where, value in flat(content, key):
        override = parsed(value) if isinstance(value, str) and is_place_of_overrides(where) else None
        yield from secrets_in(where, unquoted(value)) if override is None else ()
        for each in values_of(override) if override is not None else ():
            yield from found_in(each, override.key_or_group)


def secret_values(config: DictConfig) -> set[str]:
    """Return the secrets of a config and of this process's environment."""
    inside = set(found_in(OmegaConf.to_container(config, resolve=False))) | set(referred(config))
    named = {name: value for name, value in os.environ.items() if name not in SHELL}
    around = {value for name, each in named.items() for value in secrets_in(name, each) if len(value) >= SHORTEST}
    return {value for value in inside | around if value.lower() not in SWITCHES}


def referred(config: DictConfig) -> Iterator[str]:
    """Yield what references in the place of secrets lead to, where they lead somewhere."""
    for full_key, parent, key in walk(config):
        if names_secret(full_key) and OmegaConf.is_interpolation(parent, key):
            value = value_of(parent, key)
            plain = OmegaConf.to_container(value, resolve=False) if OmegaConf.is_config(value) else value
            yield from found_in(plain, full_key)


def without_secrets(content: Any, secrets: Iterable[str]) -> Any:
    """Return plain data of a config without what its keys call secret, and without `secrets` under other names."""
    return redact_texts(redact(content), secrets)


def redact_text(text: str, secrets: Iterable[str]) -> str:
    """Return `text` with stars for every one of `secrets`, also as JSON, Python, HTML, YAML and URLs write it."""
    pattern = pattern_of(frozenset(secrets))
    return text if pattern is None else pattern.sub("***", text)


def redact_texts(content: Any, secrets: Iterable[str]) -> Any:
    """Return plain data with stars for every one of `secrets`, in its texts and in the place of numbers."""
    secrets = frozenset(secrets)
    if isinstance(content, dict):
        return {name: redact_texts(each, secrets) for name, each in content.items()}
    if isinstance(content, (list, tuple)):
        return [redact_texts(each, secrets) for each in content]
    if isinstance(content, str):
        return redact_text(content, secrets)
    is_number = isinstance(content, (int, float)) and not isinstance(content, bool)
    return "***" if is_number and len(str(content)) >= WORD and str(content) in secrets else content


@lru_cache(maxsize=64)
def pattern_of(secrets: frozenset[str]) -> re.Pattern[str] | None:
    """Return what matches any of `secrets`, the longest first, or None where there is none."""
    forms = {form for secret in secrets for form in forms_of(secret) if form.strip()}
    alternatives = [
        re.escape(form) if len(form) >= WORD else rf"(?<!\w){re.escape(form)}(?!\w)"
        for form in sorted(forms, key=lambda form: (-len(form), form))
    ]
    return re.compile("|".join(alternatives)) if alternatives else None


def forms_of(secret: str) -> Iterator[str]:
    """Yield a secret as texts of different kinds write it; one of several lines also line by line, as logs are read."""
    yield secret
    yield json.dumps(secret)[1:-1]
    yield json.dumps(secret, ensure_ascii=False)[1:-1]
    yield repr(secret)[1:-1]
    yield secret.replace("'", "''")  # YAML between single quotes
    yield html.escape(secret)
    yield (
        secret.replace("&", "&amp;")
        .replace("<", "&lt;")
        .replace(">", "&gt;")
        .replace('"', "&#34;")
        .replace("'", "&#39;")
    )
    yield urllib.parse.quote(secret, safe="")
    yield urllib.parse.quote_plus(secret)
    yield urllib.parse.unquote(secret)  # who connects decodes what an address has
    yield urllib.parse.unquote_plus(secret)
    if "\n" in secret:
        yield from (line for line in secret.splitlines() if len(line) >= SHORTEST)
