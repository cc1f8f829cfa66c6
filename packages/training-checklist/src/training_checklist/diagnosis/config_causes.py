"""Why a config does not become objects: targets, arguments, keys, and values of the wrong type."""

import re
from difflib import get_close_matches

from hydra.core.global_hydra import GlobalHydra
from hydra.core.hydra_config import HydraConfig
from training_config.near_names import suggestion
from training_config.targets import locate, parameters_of

from training_checklist.diagnosis.cause import Cause, Pattern
from training_checklist.diagnosis.config_place import keys_named, place_of, raw_leaves
from training_checklist.diagnosis.crash import Crash
from training_checklist.finding import Fix


def not_found(crash: Crash, match: re.Match) -> Cause:
    target, key = match[1], full_key(crash.error)
    hint = nearest_target(target)
    return Cause(
        f"there is no {target}{hint}",
        f"{key}._target_=<module.Class>; python -c 'import {target.rpartition('.')[0]}' shows if that imports",
        place_of(crash.config, f"{key}._target_"),
    )


def nearest_target(target: str) -> str:
    """Return which part of a dotted path does not exist, and the nearest that does."""
    try:
        locate(target)
    except ImportError as error:
        return f": {error}"
    return ""


def called(crash: Crash, match: re.Match) -> Cause | None:
    target, error = match[1], crash.error.__cause__
    key = full_key(crash.error)
    wrong = re.search(r"unexpected keyword argument '(\w+)'", str(error))
    if isinstance(error, TypeError) and wrong and fits(error):
        known, taken = raw_leaves(crash.config), len(key) + 1
        given = {full[taken:].partition(".")[0] for full in known if full.startswith(f"{key}.")}
        place = place_of(crash.config, f"{key}.{wrong[1]}")
        # Typed, it may be meant for what a file gives already; in a file, both stand beside each other.
        is_typed = place is not None and place.is_typed
        takes = [name for name in parameters(target) if is_typed or name not in given]
        hint = suggestion(wrong[1], takes, "it takes")
        near = get_close_matches(wrong[1], takes, n=1)
        value = known.get(f"{key}.{wrong[1]}", "...")
        value = "null" if value is None else value
        instead = (f"{'' if near[0] in given else '+'}{key}.{near[0]}={value}",) if near else ()
        why = f"{target} takes no argument {wrong[1]}{hint}"
        if wrong[1] not in given:
            return Cause(why, f"take it out of the call of instantiate(...): the config has no {key}.{wrong[1]}")
        fix = Fix(overrides=(f"~{key}.{wrong[1]}", *instead))
        return Cause(why, fix, place)
    lacks = re.search(r"missing \d+ required (?:positional|keyword-only) arguments?: (.*)", str(error))
    if isinstance(error, TypeError) and lacks and fits(error):
        names = re.findall(r"'(\w+)'", lacks[1])
        if {"params", "optimizer"} & set(names):
            why = f"{target} gets {', '.join(names)} from the model"
            fix = Fix(overrides=(f"+{key}._partial_=true",))
        else:
            why = f"{target} needs {', '.join(names)}"
            fix = Fix(" ".join(f"+{key}.{name}=..." for name in names))
        return Cause(why, fix, place_of(crash.config, key))
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


def missing_value(crash: Crash, match: re.Match) -> Cause:
    key = full_key(crash.error) or match[1]
    return Cause(f"{key} is ???, which somebody must set", f"{key}=...", place_of(crash.config, key))


def unknown_key(crash: Crash, match: re.Match) -> Cause:
    key, known = full_key(crash.error) or match[1], raw_leaves(crash.config)
    names = {name for full in known for name in parents(full)}
    options = options_of(key)
    if options:
        return Cause(f"nothing has chosen one of the options of {key}/", f"{key}={' or '.join(options[:4])}")
    return Cause(f"the config has no {key}{suggestion(key, names)}", f"+{key}=... adds it", place_of(crash.config, key))


def options_of(key: str) -> list[str]:
    """Return the options of a group that the defaults list leaves open (`data: null`); none of anything else."""
    group = key.replace(".", "/")
    if not HydraConfig.initialized() or HydraConfig.get().runtime.choices.get(group, "") is not None:
        return []
    return GlobalHydra.instance().config_loader().get_group_options(group)


def interpolation(crash: Crash, match: re.Match) -> Cause:
    key, names = full_key(crash.error), {name for full in raw_leaves(crash.config) for name in parents(full)}
    why = f"{key} refers to {match[1]}, which the config has not{suggestion(match[1], names)}"
    return Cause(why, f"{key}=...", place_of(crash.config, key))


def text_for_number(crash: Crash, match: re.Match) -> Cause | None:
    """A number that YAML reads as text, such as 1e-3, found among the variables of the frames that raised."""
    for step in reversed(crash.steps):
        for name, value in step.frame.f_locals.items():
            if not isinstance(value, str) or not is_number(value):
                continue
            keys = [key for key in keys_named(crash.config, name) if raw_leaves(crash.config)[key] == value]
            key = keys[0] if keys else name
            return Cause(
                f"{key} is the text {value!r}: YAML takes a number in quotes, or 1e-3 without a point, for text",
                Fix(overrides=(f"{key}={float(value):.12f}".rstrip("0"),)) if keys else "write it without quotes",
                place_of(crash.config, key) if keys else None,
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


PATTERNS: list[Pattern] = [
    (r"Error locating target '([^']+)'", not_found),
    (r"Error in (?:call to target|creating partial) ?\(?'?([\w.]+)", called),
    (r"Missing mandatory value: (\S+)", missing_value),
    (r"Interpolation key '([^']+)' not found", interpolation),
    (r"(?:Key|Attribute) '([^']+)' (?:is )?not in", unknown_key),
    (r"TypeError.*(?:'str'|not str)", text_for_number),
]
