"""The config of a job, beside the code that reads it: what its nodes build, where its values come from."""

import copy
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from importlib.metadata import version
from pathlib import Path
from typing import Any

from omegaconf import DictConfig, ListConfig, OmegaConf, open_dict, read_write
from training_config.provenance import File, Provenance, Setting, trace_config
from training_config.targets import HYDRA_KEYS, Parameters, annotations_of, locate, parameters_of
from training_config.walk import UNKNOWN, is_missing, is_no_content, value_of, walk

from training_checklist.finding import Place
from training_checklist.group import groups
from training_checklist.lab.arguments import EXPONENT, misfit, splatted, unknown_arguments
from training_checklist.lab.code_reads import Code, read_code
from training_checklist.lab.shared import Subject, once
from training_checklist.lightning import Callback, Trainer
from training_checklist.probe import CannotJudge
from training_checklist.settings import KEY

LIGHTNING_NAMES = {"experiment"}  # attributes of Lightning's own objects, such as logger.experiment
DOTTED = re.compile(r"[A-Za-z_][\w.]*")


class JobConfig(Subject):
    """What is looked at before anything is built.

    Args:
        config: of a job, with Hydra's own part, which `job` is without.

    Attributes:
        fitting: the Trainer that is asked to fit, once the program has come so far.
    """

    fitting: Trainer

    def __init__(self, config: DictConfig) -> None:
        self.config, self.job = config, copy.deepcopy(config)
        with read_write(self.job), open_dict(self.job):
            del self.job["hydra"]

    @cached_property
    def code(self) -> Code:
        """What the project's code says, as far as that can be told: `source` asks for more."""
        sources = self.config.hydra.runtime.config_sources
        found = [Path(each.path).parent for each in sources if each.schema == "file" and each.provider == "main"]
        return read_code([*found, Path(self.config.hydra.runtime.cwd)]) or Code()

    @cached_property
    def names(self) -> set[str | int]:
        """The last part of each key."""
        return {key for _, _, key in walk(self.job)}

    @cached_property
    def references(self) -> set[str]:
        """Every dotted word inside of interpolations: keys that they read, and more; also in options not chosen now."""
        texts = (as_written(node, key) for _, node, key in walk(self.job))
        lines = [*texts, *(line for file in self.options for line in file.read_text(errors="replace").splitlines())]
        return {word.rstrip(".") for text in lines if "${" in text for word in DOTTED.findall(text)}

    @property
    def options(self) -> Iterator[Path]:
        """The files of all options of those groups from which this job takes one, and the files beside them."""
        runtime = self.config.hydra.runtime
        groups = ["", *{f"{group.partition('@')[0]}/**/" for group in runtime.choices}]
        for source in runtime.config_sources:
            if source.schema == "file":
                for group in groups:
                    # An editor's lock file is a link to nowhere.
                    yield from filter(Path.is_file, Path(source.path).glob(f"{group}*.yaml"))

    def place(self, key: str) -> Place:
        """Return a key with its origin: "conf/data/digits.yaml:2, over conf/train.yaml:15"."""
        try:
            where = provenance(self).where(key)
        except CannotJudge:
            where = key
        return Place(key=key, origin=where.removeprefix(key).strip(" ()"))

    def line(self, key: str) -> str:
        """Return the line of a file that sets a key, "" where none does."""
        try:
            [*_, last] = provenance(self).history.get(tuple(key.split(".")), [])
            return Path(last.file).read_text(errors="replace").splitlines()[last.line - 1] if last.line else ""
        except (CannotJudge, ValueError, OSError, IndexError):
            return ""

    def is_referred_to(self, key: str) -> bool:
        """Whether an interpolation reads a key, what holds it, or what it holds."""
        return any(
            other == key or other.startswith(f"{key}.") or key.startswith(f"{other}.") for other in self.references
        )

    def is_of_debug(self, full_key: str) -> bool:
        """Whether only debug items set a key; they also name keys that only some projects have."""
        try:
            settings = provenance(self).history.get(tuple(full_key.split(".")), [])
        except CannotJudge:
            return False
        ours = tuple(f"{name}/" for name in groups())
        return bool(settings) and all(setting.option.startswith(ours) for setting in settings)


@once
def provenance(config: JobConfig) -> Provenance:
    try:
        return trace_config(config.config)
    except Exception as error:  # Hydra's internals, which a later version may change
        raise CannotJudge(
            f"the origin of values is unknown with hydra-core {version('hydra-core')}: {error}"
        ) from error


def source(config: JobConfig) -> Code:
    """Return what the project's code says.

    Raises:
        CannotJudge: it is not known which code is the project's.
    """
    if not config.code.files:
        raise CannotJudge("the project's own source files are not known, or too many")
    return config.code


@once
def beaten(config: JobConfig) -> list[tuple[str, list[Setting], Setting]]:
    """Return (key, its settings, the beaten one) where a file that nobody chose has the last word.

    The beaten one is what the user chose, or else what the main file says and an option with a package replaces, or
    what a file says and one replaces that it lists itself.
    """
    found = []
    for key, settings in provenance(config).history.items():
        last, others = settings[-1], [each for each in settings[:-1] if each.value != settings[-1].value]
        others = [each for each in others if each.option not in provenance(config).items]
        chosen = [each for each in others if each.chosen]
        primary = [each for each in others if each.primary and last.package and not last.primary]
        listing = [each for each in others if last.parent == each.option and not each.primary]
        is_chosen = last.chosen or last.option in provenance(config).picked
        if not is_chosen and key[0] != KEY and (chosen or primary or listing):
            found.append((".".join(key), settings, chosen[-1] if chosen else (primary or listing)[0]))
    return found


@once
def misplaced(config: JobConfig) -> list[File]:
    """Return files of a group such as experiment/ whose keys belong at the top, but which do not say so."""

    def is_read(group: str, name: str) -> bool:
        code = source(config)
        return (group, name) in code.pairs or (group in code.whole and group not in LIGHTNING_NAMES)

    def belongs_at_top(file: File) -> bool:
        group = file.option.rpartition("/")[0]
        at_top = bool(group and file.content) and all(name in config.job for name in file.content)
        below = file.header is None and file.package == group.replace("/", ".")
        last = group.rpartition("/")[2]
        return (
            at_top
            and below
            and not config.is_referred_to(file.package)
            and not any(is_read(last, name) for name in file.content)
        )

    return [file for file in provenance(config).files if belongs_at_top(file)]


@dataclass
class Target:
    """A `_target_`: its node, by key; what it names; and why nothing can be built from that, or ""."""

    key: str
    node: DictConfig
    named: Any
    found: Any
    problem: str


@dataclass
class Call:
    """A node whose keys are arguments of something; `is_built` by Hydra, or else handed over as `callee(**node)`."""

    key: str
    node: DictConfig
    found: Any
    callee: str
    parameters: Parameters
    is_built: bool = True

    def given(self) -> list[str]:
        return [str(key) for key in self.node if key not in HYDRA_KEYS]


@once
def targets(config: JobConfig) -> list[Target]:
    nodes = ((key, node) for key, node, name in walk(config.job) if name == "_target_" and isinstance(node, DictConfig))
    named = ((key, node, value_of(node, "_target_")) for key, node in nodes)  # UNKNOWN is another question's
    return [Target(key, node, name, *found_target(name)) for key, node, name in named if name is not UNKNOWN]


def found_target(target: Any) -> tuple[Any, str]:
    """Return what a `_target_` names, and why nothing can be built from it, or ""."""
    if not isinstance(target, str) or not target:
        return None, "is no name of a class or function"
    try:
        found = locate(target)
    except ImportError as error:
        return None, f"cannot be imported: {error}"
    return found, "" if callable(found) else f"is a {type(found).__name__}, nothing to call"


@once
def calls(config: JobConfig) -> list[Call]:
    """Return each node whose keys, all of them, are given to something that tells what it takes."""
    found = []
    for each in targets(config):
        parameters = None if each.problem else parameters_of(each.found)
        if parameters is not None:
            owner = each.key.removesuffix("_target_").removesuffix(".")
            # The root's other keys are the program's own: a file says `@package _global_`, and nobody builds it.
            if not owner or is_taken_apart(owner, config.code) or is_read_and_not_built(owner, each.node, config):
                continue
            found.append(Call(owner, each.node, each.found, each.named, parameters))
    for key, target, name in splatted(config.code):
        node, parameters = value_of(config.job, key) if key in config.job else None, parameters_of(target)
        if isinstance(node, DictConfig) and "_target_" not in node and parameters is not None:
            found.append(Call(key, node, target, name, parameters, is_built=False))
    return found


def is_taken_apart(owner: str, code: Code) -> bool:
    """Whether the code reads the `_target_` of a node, and builds that from a node of its own instead."""
    parts = owner.split(".")
    return code.composes and (parts[-1], "_target_") in code.pairs and code.built.isdisjoint(parts)


def is_read_and_not_built(owner: str, node: DictConfig, config: JobConfig) -> bool:
    """Whether the code reads keys of a node, and builds other nodes alone: by name, or through what holds them."""
    parts, code = owner.split("."), config.code
    if not any((parts[-1], key) in code.pairs for key in node):
        return False
    variables = code.built - config.names
    elsewhere = not variables or (not code.loops and bool(code.looped) and code.looped.isdisjoint(parts))
    return bool(code.built) and code.built.isdisjoint(parts) and elsewhere


@once
def unread_keys(config: JobConfig) -> list[str]:
    """Return the keys that no code names, and no interpolation leads to, but for those inside of what is read whole."""
    return list(unread(config, config.job, ""))


def unread(config: JobConfig, node: DictConfig, prefix: str) -> Iterator[str]:
    for key in map(str, node):
        full_key, child = f"{prefix}{key}", node._get_node(key)
        if full_key == KEY or config.is_referred_to(full_key) or config.is_of_debug(full_key):
            continue
        if not config.code.names(key):
            yield full_key
        elif isinstance(child, DictConfig) and not is_no_content(child) and not {"_target_"} & {*child}:
            yield from unread(config, child, f"{full_key}.") if key not in config.code.whole else ()


def callbacks(config: JobConfig, kind: type = Callback) -> Iterator[Call]:
    """Yield those calls that make a callback of a kind."""
    return (each for each in calls(config) if isinstance(each.found, type) and issubclass(each.found, kind))


def monitor_of(call: Call) -> str:
    """Return the metric that a callback watches, "" for none."""
    monitor = value_of(call.node, "monitor") if "monitor" in call.node else None
    return monitor if isinstance(monitor, str) else ""


def given_to(config: JobConfig, name: str) -> Iterator[tuple[str, DictConfig, Any]]:
    """Yield (full key, node, value) of all keys with this name, but for those that a debug item sets."""
    for full_key, node, key in walk(config.job):
        is_own = key == name and isinstance(node, DictConfig) and not full_key.startswith("debug.")
        if is_own and not config.is_of_debug(full_key):
            yield full_key, node, OmegaConf.to_container(node, resolve=False)[key]


@dataclass
class Text:
    """A string where something else is wanted: "a number", and why; `meant` is what it seems to mean."""

    key: str
    value: str
    wanted: str
    why: str
    meant: str


@once
def text_values(config: JobConfig) -> dict[str, Text]:
    """Return strings that stand for something else, by the key at which they are written."""
    found: dict[str, Text] = {}

    def add(full_key: str, node: DictConfig, key: str, value: str, wanted: str, why: str) -> None:
        raw = re.fullmatch(r"\$\{([\w.]+)\}", as_written(node, key))
        if raw and OmegaConf.select(config.job, raw[1], default=None) == value:
            full_key = raw[1]
        text = value.strip()
        meant = {"null": "null", "a list": f"[{text[1:-1]}]"}.get(wanted, text)
        if wanted == "true or false":
            meant = "true" if text.lower() in ("true", "yes", "on") else "false"
        found.setdefault(full_key, Text(full_key, value, wanted, why, meant))

    for call in calls(config):
        annotations, parameters = annotations_of(call.found), call.parameters
        other = {*unknown_arguments(call.given(), parameters, config.code)}
        for name in (name for name in call.given() if name not in other):
            value = value_of(call.node, name)
            wanted = misfit(value, parameters.get(name), annotations.get(name) if name in parameters else None)
            is_read = wanted == "a list" and config.code.parses_lists
            if wanted is not None and not is_read:
                add(f"{call.key}.{name}", call.node, name, value, wanted, f"there {call.callee} takes {wanted}")
    for full_key, node, key in walk(config.job):
        is_plain = isinstance(node, DictConfig) and "_target_" not in node and not full_key.startswith("debug.")
        if is_plain and EXPONENT.fullmatch(as_written(node, key).strip()):
            add(full_key, node, key, as_written(node, key), "a number", "it looks like one")
    return found


def as_written(node: Any, key: str | int) -> str:
    """Return a string as it is written, "" for anything else."""
    value = node._get_node(key)
    raw = None if value is None or is_missing(node, key) else value._value()
    return raw if isinstance(raw, str) else ""


def override(node: DictConfig, key: str) -> str:
    """Return the value of a key as an override writes it."""
    return override_of(value_of(node, key))


def override_of(value: Any) -> str:
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, (list, ListConfig)):
        return f"[{','.join(map(override_of, value))}]"
    return "''" if value == "" else str(value)
