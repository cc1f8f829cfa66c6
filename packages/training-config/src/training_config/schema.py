"""JSON schemas of a config directory, from the signatures of what its files name: editors complete and check by it."""

import inspect
import json
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import NoneType
from typing import Any

from omegaconf import OmegaConf

from .targets import HYDRA_KEYS, annotations_of, locate, parameters_of, takes_any, targets
from .values import Schema, json_schema

Targets = dict[tuple[str, ...], set[str]]  # what is named at each place below a group

DRAFT = "http://json-schema.org/draft-07/schema#"  # the one that editors know best
NODE = ["object", "null", "string"]  # a string is ${...} or ???
UNRESOLVED = {"type": "string", "pattern": r"\$\{|^\?\?\?$"}  # may stand for a value of any type


def write_schemas(conf: Path, main: str, folder: Path) -> None:
    """Write the schema of every group in `conf` that names a `_target_`, and of `main`, which sets values of several.

    Args:
        conf: a config directory.
        main: the name of its main file, without .yaml.
        folder: where <group>.json and <main>.json go.
    """
    folder.mkdir(exist_ok=True)
    places = {path.name: named_targets(path.glob("*.yaml")) for path in sorted(conf.iterdir()) if path.is_dir()}
    places.pop("hydra", None)  # Hydra's own settings
    groups = {group: found for group, found in places.items() if found}
    for group, found in groups.items():
        write(folder / f"{group}.json", node_schema(found))
    write(folder / f"{main}.json", whole_schema((conf / f"{main}.yaml").read_text(encoding="utf-8"), groups))


def named_targets(files: Iterable[Path]) -> Targets:
    """Return every `_target_` in the files of a group, by its place."""
    found: Targets = {}
    for file in files:
        for key, node in targets(OmegaConf.load(file)):
            if OmegaConf.is_missing(node, "_target_"):  # a file that others begin from
                continue
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
    parameters = parameters_of(target)
    if parameters is None or takes_any(parameters):
        return None
    hints = annotations_of(target)
    function = target.__init__ if inspect.isclass(target) else target
    text = "\n".join(filter(None, (inspect.getdoc(target), inspect.getdoc(function))))
    schemas = {}
    for parameter in parameters.values():
        if parameter.kind is parameter.VAR_POSITIONAL:
            continue
        schema = type_schema(hints.get(parameter.name, Any))
        if isinstance(parameter.default, (bool, int, float, str, NoneType)):
            schema = schema | {"default": parameter.default}
        described = re.search(rf"^ *{parameter.name}(?: \(.*?\))?: *(\S.*)", text, flags=re.MULTILINE)
        schemas[parameter.name] = schema | ({"description": described[1]} if described else {})
    return schemas


def type_schema(annotation: Any) -> Schema:
    """Return what YAML may have for an annotation, or {} where that is anything."""
    schema = json_schema(annotation)
    return {"anyOf": [schema, UNRESOLVED]} if schema else {}


def whole_schema(text: str, groups: Iterable[str]) -> Schema:
    """Return the schema of the main file and of files that override it, with its own comments as descriptions."""
    described = re.findall(r"^(\w+): .*? # (.*)$", text, flags=re.MULTILINE)
    keys = {key: {"description": comment} for key, comment in described}
    keys |= {key: {} for key in re.findall(r"^(\w+):", text, flags=re.MULTILINE) if key not in keys}
    return {
        "type": "object",
        "properties": keys | {group: {"$ref": f"{group}.json"} for group in groups} | {"hydra": {}},
    }


def write(path: Path, schema: Mapping[str, Any]) -> None:
    path.write_text(json.dumps({"$schema": DRAFT} | schema, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    write_schemas(Path("conf"), "train", Path("schemas"))
