"""Turns what libraries say of a config into one line: the key, the value, what is wrong."""

import re
import sysconfig
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from hydra.errors import CompactHydraException, InstantiationException
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException
from training_config.check import shown
from training_config.errors import ConfigError
from training_config.walk import value_of, walk

# Where libraries lie, also those of an environment that another one builds on.
INSTALLED, STANDARD = {"site-packages", "dist-packages"}, str(Path(sysconfig.get_path("stdlib")).resolve())
THIS = str(Path(__file__).resolve())


@contextmanager
def one_line(cfg: DictConfig) -> Iterator[None]:
    """Raise a `ConfigError` for what OmegaConf, Hydra and Lightning say of a value that they do not take.

    Not for exceptions of the project's own code, which need their traceback: what a class of the project raises in its
    constructor stays as it is. Nor for what Lightning says of batches and epochs that it is amid, but for a metric that
    is monitored and not logged.

    Args:
        cfg: names the values in question.
    """
    try:
        yield
    except OmegaConfBaseException as error:
        key = getattr(error, "full_key", None) or "the config"
        raise ConfigError(f"{key} does not resolve: {first_line(error)}") from error
    except InstantiationException as error:
        cause = cause_of(error)
        if isinstance(cause, CompactHydraException):  # a sentence already
            raise cause from None
        if cause is None or is_own(cause):
            raise
        raise ConfigError(refusal(cfg, error, cause)) from error
    except CompactHydraException as error:
        if not str(error).startswith("Caught "):
            raise
        # Of a loader process: torch has put the traceback of that process before the sentence.
        raise type(error)(str(error).rpartition(f"{type(error).__name__}: ")[2].strip()) from error
    except Exception as error:
        unlogged = not_logged(cfg, error)
        if unlogged is not None:
            raise ConfigError(f"{unlogged} names a metric that is not logged: {in_one_line(error)}") from error
        if not is_misconfiguration(error) or is_own(error) or is_amid_epochs(error):
            raise
        raise ConfigError(f"Lightning refuses this: {in_one_line(error)}") from error


def cause_of(error: InstantiationException) -> BaseException | None:
    """Return what a target has raised; targets may be built within others."""
    cause: BaseException | None = error
    while isinstance(cause, InstantiationException):
        cause = cause.__cause__
    return cause


def is_own(error: BaseException) -> bool:
    """Whether code of the project itself was at work: its frames lie below those of Hydra, which called it."""
    files = [str(Path(frame.filename).resolve()) for frame in traceback.extract_tb(error.__traceback__)]
    below_hydra = max((n for n, file in enumerate(files) if "/hydra/_internal/" in Path(file).as_posix()), default=-1)
    if below_hydra == -1:
        files = files[-1:]  # what a library says of the whole
        below_hydra = -1
    return any(not is_installed(file) and file != THIS for file in files[below_hydra + 1 :])


def monitored(cfg: DictConfig) -> dict[str, str]:
    """Return what each `monitor` of a config names; those with the shortest keys first, which others lead to."""
    found = {key: value_of(parent, name) for key, parent, name in walk(cfg) if name == "monitor"}
    return {key: found[key] for key in sorted(found, key=len) if isinstance(found[key], str)}


def not_logged(cfg: DictConfig, error: BaseException) -> str | None:
    """Return the key and value of the `monitor` that Lightning misses amid an epoch, or None."""
    file = traceback.extract_tb(error.__traceback__)[-1].filename
    if "pytorch_lightning" not in Path(file).parts or not is_amid_epochs(error):
        return None
    names = {f"{key}={name}": rf"(?<![\w/]){re.escape(name)}(?![\w/])" for key, name in monitored(cfg).items()}
    places = {named: match.start() for named, name in names.items() if (match := re.search(name, str(error)))}
    return min(places, key=places.get, default=None)  # what is logged is listed behind it


def is_installed(file: str) -> bool:
    return file.startswith(STANDARD) or not INSTALLED.isdisjoint(Path(file).parts)


def is_misconfiguration(error: BaseException) -> bool:
    """Whether Lightning calls it a mistake of its user. Its class is not imported for that."""
    return any(kind.__name__ == "MisconfigurationException" for kind in type(error).__mro__)


def is_amid_epochs(error: BaseException) -> bool:
    """Whether a loop of Lightning had begun: what it lacks then was not logged, or not given, by the project."""
    return any(frame.name in ("advance", "on_advance_end") for frame in traceback.extract_tb(error.__traceback__))


def refusal(cfg: DictConfig, error: InstantiationException, cause: BaseException) -> str:
    """Return the line for a target that does not take its arguments: those that it speaks of, else all."""
    key = full_key(error)
    node = OmegaConf.select(cfg, key) if key else None
    said = in_one_line(cause)
    if not OmegaConf.is_dict(node):
        return f"{key or 'a part of the config'} is refused: {said}"
    arguments = {str(name): node[name] for name in node if not str(name).startswith("_")}
    named = {name: value for name, value in arguments.items() if name in said} or arguments
    values = ", ".join(f"{key}.{name}={shown(value, f'{key}.{name}')}" for name, value in named.items())
    return f"{values or key} is not taken by {node.get('_target_')}: {said}"


def full_key(error: InstantiationException) -> str:
    """Return the key that Hydra names; of a target within another, the innermost."""
    keys, each = [], error
    while isinstance(each, InstantiationException):
        keys += [line.partition("full_key: ")[2].strip() for line in str(each).splitlines() if "full_key: " in line]
        each = each.__cause__
    return keys[-1] if keys else ""


def first_line(error: BaseException) -> str:
    return str(error).strip().partition("\n")[0]


def in_one_line(error: BaseException) -> str:
    return " ".join(str(error).split()) or type(error).__name__
