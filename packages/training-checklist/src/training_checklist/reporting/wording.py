"""A fix in words: the only place that writes commands, as this project spells them."""

import os
import re
import shlex
import sys
from dataclasses import replace
from pathlib import Path

from hydra.core.override_parser.overrides_parser import OverridesParser
from omegaconf import DictConfig, OmegaConf
from training_config.overrides import given, key_of
from training_config.overrides import quoted as exactly
from training_config.targets import HYDRA_KEYS, locate, parameters_of, takes_any
from training_config.walk import walk

from training_checklist.ending import OF_CHECKLIST
from training_checklist.finding import Finding
from training_checklist.group import ALWAYS, DOOR, group_name, group_of, groups
from training_checklist.group import option as named
from training_checklist.settings import KEY
from training_checklist.starting.placement import RUN

TRAINER = "trainer"  # key of the config and argument of `check` that are given to the Trainer


def in_words(finding: Finding, item: str | None, config: DictConfig | None) -> str:
    """Return what to do next about a finding of `item`; `config` is the job's, None outside of Hydra."""
    fix = finding.fix
    empty = [override[1:] for override in fix.overrides if is_empty(config, override)]
    reached = {each: reaching(config, each) for each in fix.overrides if each.removeprefix("~") not in empty}
    changed = tuple(found for found in reached.values() if found is not None)
    beyond = [override.lstrip("+") for override, found in reached.items() if found is None]
    commands = [command(config, item, changed)] if changed or (beyond and config is None) else []
    commands += [command(config, other) for other in fix.items]
    taken_out = [f"take {key} out of its file: Hydra deletes no key whose value is null" for key in empty]
    advice = "; ".join([*taken_out, fix.advice] if fix.advice else taken_out)
    if beyond and config is None:
        commands[0] += f" with {' and '.join(beyond)} in the code"
    elif beyond and not advice:
        advice = f"{' and '.join(beyond)}, in the code: no key of this config reaches it"
    return "; ".join([*commands, advice] if advice else commands)


def is_empty(config: DictConfig | None, override: str) -> bool:
    """Whether it takes away what Hydra takes for missing: a key of the project's files whose value is null."""
    key = override.removeprefix("~")
    if config is None or key == override or key in map(key_of, given(config, "task")):
        return False
    return OmegaConf.select(config, key, throw_on_missing=False, throw_on_resolution_failure=False) is None


def command(config: DictConfig | None, item: str | None, overrides: tuple[str, ...] = ()) -> str:
    """Return the command of this job with a debug item, or none, and with `overrides` in the place of those it has.

    `~key` takes away what the command adds with `+`, and else the key that the project's files have.
    """
    if config is None:
        return call(item, overrides)
    ours = (*groups(), KEY)
    own = [text for text in given(config, "task") if key_of(text).partition(".")[0] not in ours]
    place = place_of_item()
    own = [text for text in own if text.partition("=")[2] != place]
    signs = {key_of(text): text[: len(text) - len(text.lstrip("+"))] for text in own}
    # What the user has added is no key of the configs: without its sign Hydra would refuse it.
    changed = [text if text[0] in "+~" else f"{signs.get(key_of(text), '')}{text}" for text in overrides]
    keys = {key_of(override) for override in changed}
    kept = [text for text in own if key_of(text) not in keys]
    added = [text for text in changed if not (text.startswith("~") and signs.get(key_of(text)))]
    asked = [option(config, item)] if item is not None else []
    return " ".join([*program(), *flags(), *map(quoted, [*asked, *kept, *added])])


def call(item: str | None, overrides: tuple[str, ...]) -> str:
    """Return the call of `check` with an item; overrides are of its Trainer or its settings."""
    arguments = [f"items=[{item!r}]"]
    for name in (TRAINER, KEY):
        given = OmegaConf.create({})
        for text in overrides:
            if key_of(text).startswith(f"{name}."):
                value = OverridesParser.create().parse_override(text).value()
                OmegaConf.update(given, key_of(text).removeprefix(f"{name}."), value)
        arguments += [f"{name}={OmegaConf.to_container(given)}"] if given else []
    return f"check(module, datamodule, {', '.join(arguments)})"


def without_items(arguments: list[str]) -> list[str]:
    """Return the arguments of the program without those that ask for items: `pdb` does not follow into theirs."""
    names, keys = (*groups(), f"{ALWAYS}/trial", "hydra.mode"), ("hydra.callbacks.debug", "callbacks.debug_")
    place = place_of_item()
    kept = [text for text in arguments if text.partition("=")[2] != place]
    if any(key_of(text) == "hydra.job.name" and "_ddp_process_" in text for text in kept):
        told = ("hydra.run.dir", "hydra.job.name", "hydra.output_subdir")  # by Lightning to each further rank
        kept = [text for text in kept if key_of(text) not in told]
    return [text for text in kept if key_of(text).partition("@")[0] not in names and not key_of(text).startswith(keys)]


def place_of_item() -> str | None:
    """Return what an item's command has been given besides for each key that says where its run writes."""
    place = os.environ.get(OF_CHECKLIST)
    return None if place is None else exactly(str(Path(place, RUN)))


def quoted(text: str) -> str:
    # ${...} and [..] need quotes in a shell, and a plain key=value none.
    return text if re.fullmatch(r"[\w@%+=:,./~-]+", text) else shlex.quote(text)


def program() -> list[str]:
    """Return how the program was started: "python src/train.py", or "python -m package.train"."""
    spec = getattr(sys.modules.get("__main__"), "__spec__", None)
    return ["python", "-m", spec.name] if spec is not None else ["python", relative(sys.argv[0])]


def flags() -> list[str]:
    """Return the options of Hydra's own that the program was given, with their values."""
    flags, arguments = [], iter(sys.argv[1:])
    for argument in arguments:
        if argument.startswith(("--config-name", "--config-dir", "--config-path", "-cn", "-cd", "-cp")):
            flag = [argument] if "=" in argument else [argument, next(arguments, "")]
            # A launcher tells each rank where the configs are, which the user's command does not have to say.
            if not (argument.startswith("--config-path") and Path(flag[-1]).is_absolute() and "RANK" in os.environ):
                flags += flag
    return flags


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


def reaching(config: DictConfig | None, override: str) -> str | None:
    """Return an override with the key of this config, None where nothing would read it.

    optimizer.lr may be model.optimizer.lr in it, or the one key that is called lr.
    """
    sign, key, value = re.fullmatch(r"([+~]*)([^=]+)(=.*)?", override, re.DOTALL).groups()
    owner, _, name = key.rpartition(".")
    if config is None:
        return override if sign != "~" and key.startswith((f"{TRAINER}.", f"{KEY}.")) else None
    keys = [each for each, _, _ in walk(config) if not each.startswith("hydra.")]
    if key in keys or sign == "~" or key.startswith("hydra.") or (sign == "+" and not owner):
        return override
    if key.startswith(f"{KEY}."):
        return f"++{key}{value or ''}"
    alike = [other for other in keys if other.endswith(f".{key}")]
    alike = alike or [other for other in keys if f".{other}".endswith(f".{name}")]
    if len(alike) == 1 and owner != TRAINER:
        return f"{sign.removeprefix('++')}{alike[0]}{value or ''}"
    inside = [owner] if owner in keys else [each for each in keys if owner and each.endswith(f".{owner}")]
    node = OmegaConf.select(config, inside[0]) if len(inside) == 1 else None
    if not isinstance(node, DictConfig) or not takes(node, name):
        return None
    return f"{sign or '++'}{inside[0]}.{name}{value or ''}"


def takes(node: DictConfig, name: str) -> bool:
    """Whether what is built of a node takes an argument; a node that says nothing of that is given away as a whole."""
    target = OmegaConf.select(node, "_target_")
    if not isinstance(target, str) or name in HYDRA_KEYS:
        return True
    try:
        parameters = parameters_of(locate(target))
    except ImportError:
        return False
    return parameters is None or name in parameters or takes_any(parameters)


def with_commands(finding: Finding, item: str | None, config: DictConfig | None) -> Finding:
    """Return a finding with its fix in words."""
    return finding if finding.command else replace(finding, command=in_words(finding, item, config))
