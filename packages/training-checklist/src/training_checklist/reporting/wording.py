"""A fix in words: the only place that writes commands, as this project spells them."""

import os
import re
import shlex
import sys
from dataclasses import replace
from pathlib import Path

from omegaconf import DictConfig
from training_config.overrides import given, key_of
from training_config.overrides import quoted as exactly
from training_config.walk import walk

from training_checklist.ending import OF_CHECKLIST
from training_checklist.finding import Finding
from training_checklist.group import ALWAYS, DOOR, group_name, group_of, groups
from training_checklist.group import option as named
from training_checklist.settings import KEY


def in_words(finding: Finding, item: str | None, config: DictConfig | None) -> str:
    """Return what to do next about a finding of `item`; `config` is the job's, None outside of Hydra."""
    fix = finding.fix
    commands = [command(config, item, fix.overrides)] if fix.overrides else []
    commands += [command(config, other) for other in fix.items]
    return "; ".join([*commands, fix.advice] if fix.advice else commands)


def command(config: DictConfig | None, item: str | None, overrides: tuple[str, ...] = ()) -> str:
    """Return the command of this job with a debug item, or none, and with `overrides` in the place of those it has.

    `~key` takes an override for that key away where the command has one.
    """
    if config is None:
        values = f" with {', '.join(overrides)}" if overrides else ""  # how, only a script that makes the module knows
        return f"check(module, datamodule, items=[{item!r}]){values}"
    changed = [spelled(config, override) for override in overrides]
    ours = (*groups(), KEY)
    own = [text for text in given(config, "task") if key_of(text).partition(".")[0] not in ours]
    place = os.environ.get(OF_CHECKLIST)  # which the item's command was given besides
    own = [text for text in own if place is None or text.partition("=")[2] != exactly(place)]
    keys = {key_of(override) for override in changed}
    kept = [text for text in own if key_of(text) not in keys]
    replaced = {key_of(text) for text in own} & keys
    added = [text for text in changed if not (text.startswith("~") and key_of(text) in replaced)]
    asked = [option(config, item)] if item is not None else []
    return " ".join([*program(), *map(quoted, [*asked, *kept, *added])])


def without_items(arguments: list[str]) -> list[str]:
    """Return the arguments of the program without those that ask for items: `pdb` does not follow into theirs."""
    place = os.environ.get(OF_CHECKLIST)
    names, keys = (*groups(), "hydra.mode"), ("hydra.callbacks.debug", "callbacks.debug_")
    kept = [text for text in arguments if place is None or text.partition("=")[2] != exactly(place)]
    return [text for text in kept if key_of(text).partition("@")[0] not in names and not key_of(text).startswith(keys)]


def quoted(text: str) -> str:
    # ${...} and [..] need quotes in a shell, and a plain key=value none.
    return text if re.fullmatch(r"[\w@%+=:,./~-]+", text) else shlex.quote(text)


def program() -> list[str]:
    """Return how the program was started: "python src/train.py", "python -m package.train", with Hydra's own flags."""
    spec = getattr(sys.modules.get("__main__"), "__spec__", None)
    start = ["python", "-m", spec.name] if spec is not None else ["python", relative(sys.argv[0])]
    flags, arguments = [], iter(sys.argv[1:])
    for argument in arguments:
        if argument.startswith(("--config-name", "--config-dir", "--config-path", "-cn", "-cd", "-cp")):
            flag = [argument] if "=" in argument else [argument, next(arguments, "")]
            # A launcher tells each rank where the configs are, which the user's command does not have to say.
            if not (argument.startswith("--config-path") and Path(flag[-1]).is_absolute() and "RANK" in os.environ):
                flags += flag
    return [*start, *flags]


def relative(path: str) -> str:
    try:
        return os.path.relpath(path) if os.path.isabs(path) and path.startswith(os.getcwd()) else path
    except ValueError:  # of another drive
        return path


def option(config: DictConfig, item: str) -> str:
    """Return the override that turns an item on, as this command line must spell it."""
    group = group_of(item)
    if group in (DOOR, ALWAYS) and group != group_name():
        return f"+{group}={named(group, item)}"
    asked = [text for text in given(config, "task") if key_of(text) == group]
    in_defaults = group in (config.hydra.runtime.get("choices") or {})
    added = asked[0].startswith("+") if asked else not in_defaults
    return f"{'+' if added else ''}{group}={item}"


def spelled(config: DictConfig, override: str) -> str:
    """Return an override with the key of this config: optimizer.lr may be model.optimizer.lr in it."""
    sign, key, value = re.fullmatch(r"([+~]*)([^=]+)(=.*)?", override, re.DOTALL).groups()
    keys = [each for each, _, _ in walk(config) if not each.startswith("hydra.")]
    if key in keys or sign == "~":
        return override
    alike = [other for other in keys if other.endswith(f".{key}")]
    if len(alike) == 1:
        return f"{sign.removeprefix('++')}{alike[0]}{value or ''}"
    return f"++{key}{value or ''}" if not sign and "." in key else override


def with_commands(finding: Finding, item: str | None, config: DictConfig | None) -> Finding:
    """Return a finding with its fix in words."""
    return finding if finding.command else replace(finding, command=in_words(finding, item, config))
