"""Why a config does not become objects: targets, arguments, keys, and values of the wrong type."""

import re
from difflib import get_close_matches

from training_config.near_names import suggestion
from training_config.targets import locate, parameters_of

from training_checklist.diagnosis.cause import Cause, Rule
from training_checklist.diagnosis.config_place import keys_named, raw_leaves, set_in
from training_checklist.diagnosis.place import Place


def not_found(place: Place, match: re.Match) -> Cause:
    target, key = match[1], full_key(place.error)
    hint = nearest_target(target)
    return Cause(
        f"there is no {target}{hint}",
        f"{key}._target_=<module.Class>; python -c 'import {target.rpartition('.')[0]}' shows if that imports",
        where(place, f"{key}._target_"),
    )


def nearest_target(target: str) -> str:
    """Return which part of a dotted path does not exist, and the nearest that does."""
    try:
        locate(target)
    except ImportError as error:
        return f": {error}"
    return ""


def called(place: Place, match: re.Match) -> Cause | None:
    target, error = match[1], place.error.__cause__
    key = full_key(place.error)
    wrong = re.search(r"unexpected keyword argument '(\w+)'", str(error))
    if isinstance(error, TypeError) and wrong and fits(error):
        takes = parameters(target)
        hint = suggestion(wrong[1], takes, "it takes")
        near = get_close_matches(wrong[1], takes, n=1)
        fix = f"~{key}.{wrong[1]} +{key}.{near[0]}=..." if near else f"~{key}.{wrong[1]}"
        return Cause(f"{target} takes no argument {wrong[1]}{hint}", fix, where(place, f"{key}.{wrong[1]}"))
    lacks = re.search(r"missing \d+ required (?:positional|keyword-only) arguments?: (.*)", str(error))
    if isinstance(error, TypeError) and lacks and fits(error):
        names = re.findall(r"'(\w+)'", lacks[1])
        if {"params", "optimizer"} & set(names):
            why, fix = f"{target} gets {', '.join(names)} from the model", f"+{key}._partial_=true"
        else:
            why, fix = f"{target} needs {', '.join(names)}", " ".join(f"+{key}.{name}=..." for name in names)
        return Cause(why, fix, where(place, key))
    return None  # it raised in its own code: that exception is what counts


def fits(error: BaseException) -> bool:
    """Whether a TypeError is about the call that the config made, not about one inside of what it called."""
    traceback = error.__traceback__
    while traceback is not None and traceback.tb_next is not None:
        traceback = traceback.tb_next
    return traceback is not None and traceback.tb_frame.f_globals.get("__name__", "").startswith("hydra.")


def parameters(target: str) -> list[str]:
    try:
        return [*(parameters_of(locate(target)) or ())]
    except ImportError:
        return []


def missing_value(place: Place, match: re.Match) -> Cause:
    key = full_key(place.error) or match[1]
    return Cause(f"{key} is ???, which somebody must set", f"{key}=...", where(place, key))


def unknown_key(place: Place, match: re.Match) -> Cause:
    key, known = full_key(place.error) or match[1], raw_leaves(place.config)
    names = {name for full in known for name in parents(full)}
    return Cause(f"the config has no {key}{suggestion(key, names)}", f"+{key}=... adds it", where(place, key))


def interpolation(place: Place, match: re.Match) -> Cause:
    key, names = full_key(place.error), {name for full in raw_leaves(place.config) for name in parents(full)}
    why = f"{key} refers to {match[1]}, which the config has not{suggestion(match[1], names)}"
    return Cause(why, f"{key}=...", where(place, key))


def text_for_number(place: Place, match: re.Match) -> Cause | None:
    """A number that YAML reads as text, such as 1e-3, found among the variables of the frames that raised."""
    for step in reversed(place.steps):
        for name, value in step.frame.f_locals.items():
            if not isinstance(value, str) or not is_number(value):
                continue
            keys = [key for key in keys_named(place.config, name) if raw_leaves(place.config)[key] == value]
            key = keys[0] if keys else name
            return Cause(
                f"{key} is the text {value!r}: YAML takes a number in quotes, or 1e-3 without a point, for text",
                f"{key}={float(value):.12f}".rstrip("0"),
                where(place, key) if keys else str(place),
            )
    return None


def is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def full_key(error: BaseException) -> str:
    found = re.search(r"full_key: (\S+)", str(error))
    return found[1] if found else ""


def parents(key: str) -> list[str]:
    parts = key.split(".")
    return [".".join(parts[: count + 1]) for count in range(len(parts))]


def where(place: Place, key: str) -> str:
    return f"config key {key}{set_in(place.config, key)}"


RULES: list[Rule] = [
    (r"Error locating target '([^']+)'", not_found),
    (r"Error in (?:call to target|creating partial) ?\(?'?([\w.]+)", called),
    (r"Missing mandatory value: (\S+)", missing_value),
    (r"Interpolation key '([^']+)' not found", interpolation),
    (r"(?:Key|Attribute) '([^']+)' (?:is )?not in", unknown_key),
    (r"TypeError.*(?:'str'|not str)", text_for_number),
]
