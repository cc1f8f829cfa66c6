"""Where each value of a config was set: by which files in which order, at which lines, and by the command line.

Hydra keeps no such record. Its own code makes the defaults list here once more, each file of it is applied in order,
and the result must equal what Hydra composed. Written for hydra-core 1.3, whose internals it uses.
"""

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import yaml
from hydra._internal.config_loader_impl import ConfigLoaderImpl
from hydra._internal.config_search_path_impl import ConfigSearchPathImpl
from hydra._internal.defaults_list import create_defaults_list
from hydra.core.override_parser.types import Override
from omegaconf import MISSING, DictConfig, OmegaConf

Key = tuple[str, ...]
COMMAND_LINE = "command line"


class Unknown(Exception):
    """The history found here does not end in the config that Hydra composed."""


@dataclass(frozen=True)
class Setting:
    """One value that a file or the command line gave to a key.

    Args:
        value: as written; interpolations are not resolved.
        file: the file, from the working directory where it lies in it, or `COMMAND_LINE`.
        line: of the key in the file, or 0 where that is not known.
        option: "group/option" of a file, or the override.
        package: where the file's content is put, as a dotted key; "" is the top.
        chosen: whether the user named it: overrides, and options that stand on the command line.
        primary: whether it is the file that holds the main defaults list.
        parent: option of the file whose defaults list names this one, "" for none.
        inside: the lines of what a list holds, by its path there.
    """

    value: Any
    file: str
    line: int
    option: str
    package: str
    chosen: bool
    primary: bool
    parent: str = ""
    inside: Mapping[Key, int] = field(default_factory=dict, compare=False)

    def __str__(self) -> str:
        return f"{self.file}:{self.line}" if self.line else self.file


@dataclass
class File:
    """A file of the defaults list, placed into its package.

    Args:
        header: its own `@package`, or None.
    """

    option: str
    file: str
    package: str
    header: str | None
    content: dict[str, Any]


@dataclass
class Provenance:
    """What is known of a config.

    Args:
        history: the settings of each final key, first to last; the last is the one that holds.
        files: what was composed, in order.
        added: the keys that the command line added with +.
        items: the options that switch debug items on.
        picked: the options that files of the command line's options choose: `override /model: small`.
    """

    history: dict[Key, list[Setting]]
    files: list[File]
    added: list[str]
    items: set[str]
    picked: set[str]

    def where(self, key: str) -> str:
        """Return "key (file:line, over file:line)" of a dotted key; of a container, the place of its first value.

        What a list holds has a key, too: "layers.0.width".
        """
        path = tuple(key.split("."))
        found = self.history.get(path)
        if found is None:
            below = [settings for other, settings in self.history.items() if other[: len(path)] == path]
            place = below[0][-1] if below else self.inside_list(path)
            return key if place is None else f"{key} ({place})"
        over = f", over {', '.join(str(setting) for setting in found[-2::-1])}" if len(found) > 1 else ""
        return f"{key} ({found[-1]}{over})"

    def inside_list(self, path: Key) -> Setting | None:
        """Return the setting of a list, at the line of what it holds, None where no list is on the way."""
        above = [path[:length] for length in range(len(path), 0, -1)]
        holder = next((each for each in above if each in self.history), None)
        if holder is None:
            return None
        setting, rest = self.history[holder][-1], path[len(holder) :]
        known = (setting.inside.get(rest[:length]) for length in range(len(rest), 0, -1))
        return replace(setting, line=next(filter(None, known), setting.line))


def trace_config(config: DictConfig) -> Provenance:
    """Return the history of every key of a job's config, `hydra` left out.

    Raises:
        Unknown: it does not end in `config`.
    """
    hydra = config.hydra
    here = Path(hydra.runtime.cwd)
    search_path = ConfigSearchPathImpl()
    for source in hydra.runtime.config_sources:
        search_path.append(source.provider, f"{source.schema}://{source.path}")
    texts = [
        text for kind in ("hydra", "task") for text in OmegaConf.to_container(hydra.overrides[kind], resolve=False)
    ]
    loader = ConfigLoaderImpl(search_path)
    overrides, repository = loader._parse_overrides_and_create_caching_repo(hydra.job.config_name, texts)
    listed = create_defaults_list(
        repo=repository,
        config_name=hydra.job.config_name,
        overrides_list=overrides,
        prepend_hydra=True,
        skip_missing=False,
    )
    chosen = chosen_options(overrides, listed.config_overrides)
    tree = Tree()
    files, items, picked = [], set(), set()
    for default in listed.defaults:
        if default.config_path is None or default.config_path.startswith("hydra/"):
            continue
        result = repository.load_config(default.config_path)
        if default.config_path in chosen:
            others = [each for each in result.defaults_list or () if each.is_override()]
            picked |= {f"{each.group.lstrip('/')}/{each.value}" for each in others}
        source = next(s for s in repository.get_sources() if s.is_config(default.config_path))
        path = source_file(source.scheme(), source.path, default.config_path)
        package = default.package or ""
        content = OmegaConf.to_container(loader._load_single_config(default, repository).config, resolve=False)
        content.pop("defaults", None)
        if "debug" in ((content.pop("hydra", None) or {}).get("callbacks") or {}):
            items.add(default.config_path)
        marks = line_numbers(path)
        file = shown(path, here) if path else f"ConfigStore {default.config_path}"
        header = result.header.get("package")
        own = content
        for part in package.split(".") if package else []:
            own = own.get(part, {}) if isinstance(own, dict) else {}
        files.append(File(default.config_path, file, package, header, own if isinstance(own, dict) else {}))
        inside = len(package.split(".")) if package else 0
        for key, value in leaves(content):
            if value == MISSING and tree.holds(key):  # OmegaConf merges no ??? over a value
                continue
            line = marks.get(key[inside:], 0)
            is_chosen = default.config_path in chosen
            parent = "" if default.is_self else default.parent or ""
            held = lines_below(key[inside:], marks) if isinstance(value, list) else {}
            option = default.config_path
            tree.put(key, Setting(value, file, line, option, package, is_chosen, default.primary, parent, held))
    added = []
    for override in listed.config_overrides:
        key = tuple(override.key_or_group.split("."))
        if key[0] == "hydra":
            continue
        if override.is_delete():
            tree.remove(key)
            continue
        if override.is_add() or override.is_force_add():
            added.append(override.key_or_group)
        holder = tree.list_above(key)
        if holder is None:
            given = [(key + rest[1:], value) for rest, value in leaves({"": plain(override.value())})]
        else:
            given = [(holder, changed(tree.history[holder][-1].value, key[len(holder) :], override.value()))]
        for full_key, value in given:
            tree.put(full_key, Setting(value, COMMAND_LINE, 0, override.input_line, "", True, False))
    composed = OmegaConf.to_container(config, resolve=False)
    composed.pop("hydra", None)
    return Provenance(tree.settled(composed), files, added, items, picked)


class Tree:
    """A config as it is merged, one value after the other, that remembers what each value replaced."""

    def __init__(self) -> None:
        self.history: dict[Key, list[Setting]] = {}
        self.expanded: dict[Key, list[Setting]] = {}

    def put(self, key: Key, setting: Setting) -> None:
        for length in range(1, len(key)):  # a value that becomes a container
            if key[:length] in self.history:
                before = self.history.pop(key[:length])
                if "${" in str(before[-1].value):  # OmegaConf merges into what it stands for
                    self.expanded[key[:length]] = before
        below = [other for other in self.history if other[: len(key)] == key and other != key]
        if below and setting.value == {}:
            return
        replaced = [self.history.pop(other)[-1] for other in below]
        self.history.setdefault(key, []).extend([*dict.fromkeys(map(replaced_whole, replaced)), setting])

    def holds(self, key: Key) -> bool:
        return any(other[: len(key)] == key for other in self.history)

    def list_above(self, key: Key) -> Key | None:
        """Return the key of the list that a key such as ("layers", "0", "width") leads into, or None."""
        above = (key[:length] for length in range(1, len(key)))
        return next(
            (each for each in above if each in self.history and isinstance(self.history[each][-1].value, list)), None
        )

    def remove(self, key: Key) -> None:
        below = [other for other in self.history if other[: len(key)] == key]
        for other in below:
            del self.history[other]
        parent = key[:-1]
        if parent and below and not any(other[: len(parent)] == parent for other in self.history):
            self.history[parent] = [Setting({}, COMMAND_LINE, 0, f"~{'.'.join(key)}", "", True, False)]

    def settled(self, composed: dict[str, Any]) -> dict[Key, list[Setting]]:
        """Return the history in the order of `composed`, which it must end in."""
        settled = {}
        for key, value in leaves(composed):
            settings = self.history.get(key)
            if settings is None:
                origin = next((self.expanded[key[:n]] for n in range(1, len(key)) if key[:n] in self.expanded), None)
                if origin is None:
                    raise Unknown(f"{'.'.join(key)} = {value} comes from nowhere")
                settings = origin
            elif str(settings[-1].value) != str(value):  # a schema turns "1" into 1
                raise Unknown(f"{'.'.join(key)} is {value}, not {settings[-1].value} as {settings[-1]} says")
            settled[key] = settings
        lost = next((key for key in self.history if key not in settled), None)
        if lost is not None:
            raise Unknown(f"{'.'.join(lost)} = {self.history[lost][-1].value} is not in the config")
        return settled


def replaced_whole(setting: Setting) -> Setting:
    """Return what stands for a setting whose key a later file has replaced as a whole."""
    return Setting("{...}", setting.file, 0, setting.option, setting.package, setting.chosen, setting.primary)


def leaves(content: Any, key: Key = ()) -> Iterator[tuple[Key, Any]]:
    """Yield (key, value) of everything in nested dicts that is no filled dict; a list is one value."""
    if isinstance(content, dict) and (content or not key):
        for name, value in content.items():
            yield from leaves(value, (*key, str(name)))
    else:
        yield key, content


def changed(value: list[Any], path: Key, new: Any) -> list[Any]:
    """Return a list with something new at a path into it."""
    holder = OmegaConf.create({"list": value})
    OmegaConf.update(holder, ".".join(("list", *path)), new)
    return OmegaConf.to_container(holder, resolve=False)["list"]


def plain(value: Any) -> Any:
    """Return an override's value as the config holds it: Hydra marks quoted strings with a class of their own."""
    return OmegaConf.to_container(OmegaConf.create({"value": value}), resolve=False)["value"]


def chosen_options(overrides: list[Override], values: list[Override]) -> set[str]:
    """Return "group/option" of every option that stands on the command line."""
    chosen = set()
    for override in overrides:
        if override in values or override.is_delete():
            continue
        value = override.value()
        group = override.key_or_group.partition("@")[0]
        chosen |= {f"{group}/{option}" for option in (value if isinstance(value, list) else [value])}
    return chosen


def source_file(scheme: str, folder: str, option: str) -> Path | None:
    """Return the YAML file of an option, which a defaults list may call `../other`, or None where it has none."""
    name = os.path.normpath(option if option.endswith((".yaml", ".yml")) else f"{option}.yaml")
    if scheme == "file":
        return Path(folder).resolve() / name
    if scheme == "pkg":
        spec = find_spec(folder.replace("/", "."))
        folders = list(spec.submodule_search_locations or []) if spec is not None else []
        return Path(folders[0]) / name if folders else None
    return None


def line_numbers(path: Path | None) -> dict[Key, int]:
    """Return the line, from 1, of every key of a YAML file, and of everything in its lists."""
    if path is None:
        return {}
    lines: dict[Key, int] = {}

    def visit(node: yaml.Node | None, key: Key) -> None:
        if isinstance(node, yaml.MappingNode):
            for name, value in node.value:
                below = (*key, str(name.value))
                lines[below] = name.start_mark.line + 1
                visit(value, below)
        elif isinstance(node, yaml.SequenceNode):
            for index, value in enumerate(node.value):
                lines[*key, str(index)] = value.start_mark.line + 1
                visit(value, (*key, str(index)))

    visit(yaml.compose(path.read_text(encoding="utf-8"), Loader=yaml.SafeLoader), ())
    return lines


def lines_below(key: Key, marks: Mapping[Key, int]) -> dict[Key, int]:
    """Return the lines of what a key holds, by its path there."""
    return {mark[len(key) :]: line for mark, line in marks.items() if mark[: len(key)] == key and mark != key}


def shown(path: Path, here: Path) -> str:
    """Return a path as seen from `here`, where it lies in it."""
    return path.relative_to(here).as_posix() if path.is_relative_to(here) else path.as_posix()
