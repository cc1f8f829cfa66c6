"""Whether a value is what an annotation asks for, decided and described by pydantic: one source for checks and schemas.

A range belongs into the annotation: `dropout: Fraction`, pydantic's `PositiveInt`, or `Annotated[float, Field(gt=0)]`.
`nan` is no number; inf is one, except where an annotation forbids it, as pydantic's `FiniteFloat` does.
"""

import json
import math
from collections.abc import Iterator
from functools import lru_cache
from typing import Annotated, Any

from pydantic import ConfigDict, Field, PydanticUserError, TypeAdapter, ValidationError
from pydantic.errors import PydanticInvalidForJsonSchema
from pydantic.json_schema import GenerateJsonSchema

from .walk import flat

Fraction = Annotated[float, Field(ge=0, le=1)]

LARGEST = 2**63  # torch counts in 64 bits

Schema = dict[str, Any]
PLAIN = {"integer": "a whole number", "number": "a number", "string": "text", "boolean": "true or false"}
PLAIN |= {"null": "null", "array": "a list"}


def misfit(value: Any, annotation: Any) -> str | None:
    """Return in words what should stand where a config's plain value does, or None where it may be meant.

    Only what can be told for sure: many annotations of classes are looser than what the code takes, so that any value
    but null may stand for an object.
    """
    expected = expectation(annotation)
    if expected is None:
        return None
    numbers = [each for _, each in flat(value) if isinstance(each, (int, float))]
    if any(isinstance(each, int) and abs(each) >= LARGEST for each in numbers):
        return "a number that 64 bits can hold"
    adapter, schema = expected
    kinds = [*alternatives(schema)]
    objects = [kind for kind in kinds if is_object(kind)]
    only_objects = all(map(is_object_or_null, kinds))
    mappings = [kind for kind in kinds if "additionalProperties" in kind]
    others = [kind for kind in kinds if kind not in mappings and kind.get("type") != "null"]
    if mappings and not others and value is not None and not isinstance(value, dict):
        return schema.get("title", "keys and values")
    if value is not None and objects and (only_objects or isinstance(value, (dict, list))):
        return None
    try:
        # As JSON: a list may stand for a tuple and text for a path, but 1 for neither true nor text.
        adapter.validate_json(json.dumps(value, default=str), strict=True)
        fits = not any(map(math.isnan, numbers)) or schema == {}
    except ValidationError:
        fits = False
    if not fits:
        if "title" in schema:
            return schema["title"]
        words = [word for kind in kinds for word in in_words(kind)]
        if not all(map(math.isfinite, numbers)):
            words = [word.replace(PLAIN["number"], "a finite number") for word in words]
        *others, last = dict.fromkeys(words)
        return f"{', '.join(others)} or {last}" if others else last
    return None


def choices(annotation: Any) -> list[str]:
    """Return the texts among which an annotation lets choose."""
    expected = expectation(annotation)
    return (
        [] if expected is None else [str(each) for kind in alternatives(expected[1]) for each in kind.get("enum", [])]
    )


def json_schema(annotation: Any) -> Schema:
    """Return the JSON schema of what YAML may have for an annotation, or {} where that is anything."""
    expected = expectation(annotation)
    if expected is None or "$ref" in json.dumps(expected[1]):
        return {}
    return expected[1]


def expectation(annotation: Any) -> tuple[TypeAdapter, Schema] | None:
    """Return what validates and what describes an annotation, or None where pydantic makes nothing of it."""
    try:
        return _expectation(annotation)
    except (PydanticUserError, PydanticInvalidForJsonSchema, TypeError, NameError):  # TypeError: it has no hash
        return None


@lru_cache(maxsize=1024)
def _expectation(annotation: Any) -> tuple[TypeAdapter, Schema]:
    adapter = TypeAdapter(annotation, config=ConfigDict(arbitrary_types_allowed=True))
    return adapter, adapter.json_schema(schema_generator=WithObjects)


class WithObjects(GenerateJsonSchema):
    """Describes an object of any class by the class's name: in a config a node with a `_target_` stands for it."""

    def is_instance_schema(self, schema: Any) -> Schema:
        return {"type": "object", "title": schema["cls"].__name__}

    enum_schema = is_instance_schema  # a member cannot be written in YAML; some code takes its name

    def callable_schema(self, schema: Any) -> Schema:
        return {"type": "object", "title": "a function"}

    def handle_invalid_for_json_schema(self, schema: Any, error_info: str) -> Schema:
        return {"type": "object"}


def alternatives(schema: Schema) -> Iterator[Schema]:
    for kind in schema.get("anyOf") or schema.get("oneOf") or [schema]:
        if kind is schema:
            yield kind
        else:
            yield from alternatives(kind)


def is_object(kind: Schema) -> bool:
    return kind.get("type") == "object" or "$ref" in kind


def is_object_or_null(kind: Schema) -> bool:
    return is_object(kind) or kind.get("type") == "null"


def in_words(kind: Schema) -> list[str]:
    if "title" in kind:
        return [kind["title"]]
    if "enum" in kind or "const" in kind:
        return [str(choice) for choice in kind.get("enum", [kind.get("const")])]
    name = PLAIN.get(kind.get("type", ""))
    if name == PLAIN["array"] and kind.get("items"):
        return [f"{name}, each in it {' or '.join(in_words(kind['items']))}"]
    if name is None:
        return ["an object"]
    least, most = kind.get("minimum"), kind.get("maximum")
    above, below = kind.get("exclusiveMinimum"), kind.get("exclusiveMaximum")
    if name == PLAIN["integer"] and above is not None:
        least, above = above + 1, None
    if least is not None and most is not None:
        return [f"{name} from {least} to {most}"]
    limits = {"of at least": least, "greater than": above, "of at most": most, "less than": below}
    said = [f"{word} {limit}" for word, limit in limits.items() if limit is not None]
    return [" ".join([name, " and ".join(said)]) if said else name]
