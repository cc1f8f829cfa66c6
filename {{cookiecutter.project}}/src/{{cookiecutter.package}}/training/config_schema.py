"""JSON schemas of conf/, from the signatures of what its files name: editors complete and check YAML by them.

python -m {{ cookiecutter.package }}.training.config_schema     writes schemas/, a file for each config group
"""

import inspect
import json
import os
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from omegaconf import OmegaConf

from .config_check import HYDRA_KEYS, locate, targets

Schema = dict[str, Any]
Targets = dict[tuple[str, ...], set[str]]  # what is named at each place below a group

DRAFT = "http://json-schema.org/draft-07/schema#"  # the one that editors know best
GROUPS = ("data", "model", "criterion", "optimizer", "scheduler", "trainer", "callbacks", "logger")
JSON_TYPES = {bool: "boolean", int: "integer", float: "number", str: "string", NoneType: "null"}
NODE = ["object", "null", "string"]  # a string is ${...} or ???
UNRESOLVED = {"type": "string", "pattern": r"\$\{|^\?\?\?$"}  # may stand for a value of any type


def main(conf: Path, folder: Path) -> None:
    """Write the schema of every group in `conf`, and train.json for files that set values of several groups."""
    folder.mkdir(exist_ok=True)
    for group in GROUPS:
        write(folder / f"{group}.json", node_schema(named_targets((conf / group).glob("*.yaml"))))
    write(folder / "train.json", whole_schema((conf / "train.yaml").read_text(encoding="utf-8")))


def named_targets(files: Iterable[Path]) -> Targets:
    """Return every `_target_` in the files of a group, by its place."""
    found: Targets = {}
    for file in files:
        for key, node in targets(OmegaConf.load(file)):
            place = tuple(key.split(".")) if key else ()
            found.setdefault(place, set()).add(node["_target_"])
    return found


def node_schema(found: Targets, place: tuple[str, ...] = ()) -> Schema:
    """Return the schema of the node at `place`: arguments of its target, and of those below it.

    A file that leaves the target to its defaults list may have the arguments of any target of its group.
    """
    below = {path[len(place)] for path in found if path[: len(place)] == place and len(path) > len(place)}
    children = {name: node_schema(found, (*place, name)) for name in sorted(below)}
    names = sorted(found.get(place, ()))
    if not names:
        return {"type": NODE, "properties": children}
    arguments = {name: target_arguments(name) for name in names}
    target = {"anyOf": [{"enum": names}, {"type": "string"}], "description": "class or function to call"}
    beside = {key: {} for key in ("defaults", *HYDRA_KEYS)} | {"_target_": target} | children
    every = (
        None if None in arguments.values() else {key: arguments[name][key] for name in names for key in arguments[name]}
    )
    cases = [
        {
            "if": {"required": ["_target_"], "properties": {"_target_": {"const": name}}},
            "then": closed(known, beside),
        }
        for name, known in arguments.items()
    ]
    named_elsewhere = {"if": {"not": {"required": ["_target_"]}}, "then": closed(every, beside)}
    return {"type": NODE, "properties": beside, "allOf": [*cases, named_elsewhere]}


def closed(arguments: Schema | None, beside: Schema) -> Schema:
    """Return a schema that allows these properties and no others; of None nothing is known."""
    if arguments is None:
        return {}
    return {"properties": arguments | beside, "propertyNames": {"enum": sorted(arguments | beside)}}


def target_arguments(name: str) -> Schema | None:
    """Return the schemas of a target's arguments, or None where it takes any or tells none."""
    target = locate(name)
    try:
        parameters = inspect.signature(target).parameters.values()
    except (TypeError, ValueError):
        return None
    if any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters):
        return None
    function = target.__init__ if inspect.isclass(target) else target
    try:
        hints = get_type_hints(function)
    except (NameError, TypeError):  # names that are imported for type checkers alone
        hints = {}
    text = "\n".join(filter(None, (inspect.getdoc(target), inspect.getdoc(function))))
    schemas = {}
    for parameter in parameters:
        if parameter.kind is parameter.VAR_POSITIONAL:
            continue
        schema = type_schema(hints.get(parameter.name, Any))
        if isinstance(parameter.default, (bool, int, float, str, NoneType)):
            schema = schema | {"default": parameter.default}
        described = re.search(rf"^ *{parameter.name}(?: \(.*?\))?: *(\S.*)", text, flags=re.MULTILINE)
        schemas[parameter.name] = schema | ({"description": described[1]} if described else {})
    return schemas


def type_schema(hint: Any) -> Schema:
    """Return what YAML may have for a type, or {} where that is anything."""
    if get_origin(hint) in (Union, UnionType):
        kinds = [type_schema(kind) for kind in get_args(hint)]
        return {"anyOf": kinds} if all(kinds) else {}
    if get_origin(hint) is Literal:
        return {"anyOf": [{"enum": list(get_args(hint))}, UNRESOLVED]}
    kind = get_origin(hint) or hint
    if not inspect.isclass(kind):
        return {}
    if kind in JSON_TYPES:
        name = JSON_TYPES[kind]
    elif issubclass(kind, os.PathLike):
        name = "string"
    elif issubclass(kind, Sequence):
        name = "array"
    else:
        name = "object"  # a dictionary, or a node with a target of its own
    return {"anyOf": [{"type": name}, UNRESOLVED]}


def whole_schema(text: str) -> Schema:
    """Return the schema of train.yaml and of files that override it, with its own comments as descriptions."""
    described = re.findall(r"^(\w+): .*? # (.*)$", text, flags=re.MULTILINE)
    keys = {key: {"description": comment} for key, comment in described}
    keys |= {key: {} for key in re.findall(r"^(\w+):", text, flags=re.MULTILINE) if key not in keys}
    return {
        "type": "object",
        "properties": keys | {group: {"$ref": f"{group}.json"} for group in GROUPS} | {"hydra": {}},
    }


def write(path: Path, schema: Schema) -> None:
    path.write_text(json.dumps({"$schema": DRAFT} | schema, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(Path("conf"), Path("schemas"))
