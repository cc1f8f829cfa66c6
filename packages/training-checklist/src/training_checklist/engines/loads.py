"""What the project's own calls of load_state_dict(strict=False) come to."""

import sys
import weakref
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import wraps
from typing import Any

from torch import nn

from training_checklist.engines.own_code import pass_on
from training_checklist.engines.places import kind, of_frame
from training_checklist.finding import NOWHERE, Place

ASKED_BY = ("fast_dev_run", "paths")  # the items that judge it; others run without a record


@dataclass
class LoadedWeights:
    """One call of load_state_dict(strict=False) in the project's code.

    Args:
        module: class of the module that was to have the weights.
        given: how many keys the call was given.
        expected: how many keys the module has.
        matched: how many of the given ones the module has.
        unexpected: the first given key that the module does not have.
        missing: the first key of the module that was not given.
        surplus: the prefix without which most keys match, "" where there is none.
        lacking: the prefix with which most keys match, "" where there is none.
        nested: the given key whose value holds keys of the module, "" where there is none.
        place: the line of the call.
    """

    module: str
    given: int
    expected: int
    matched: int
    unexpected: str = ""
    missing: str = ""
    surplus: str = ""
    lacking: str = ""
    nested: str = ""
    place: Place = NOWHERE


_calls: list[tuple[weakref.ref[nn.Module], LoadedWeights]] = []


def seen() -> list[LoadedWeights]:
    """Return what has been loaded with strict=False since the record began."""
    return [call for _, call in _calls]


@contextmanager
def recorded_loads(items: Collection[str]) -> Iterator[None]:
    """While it is entered, calls of the project's own code are recorded, if one of `items` judges them.

    What load_state_dict does, returns and raises stays as it is.
    """
    global _calls
    if set(items).isdisjoint(ASKED_BY):
        yield
        return
    before, _calls = _calls, []
    load = nn.Module.load_state_dict

    @wraps(load)
    def recorded(module: nn.Module, *arguments: Any, **options: Any) -> Any:
        result = pass_on(load, module, *arguments, **options)
        caller = sys._getframe(1)
        if kind(caller.f_code.co_filename) == "own":
            state = arguments[0] if arguments else options["state_dict"]
            strict = arguments[1] if len(arguments) > 1 else options.get("strict", True)
            if not strict:
                add(module, what_matched(module, state, result.missing_keys, result.unexpected_keys, caller))
        return result

    nn.Module.load_state_dict = recorded
    try:
        yield
    finally:
        nn.Module.load_state_dict, _calls = load, before


def add(module: nn.Module, call: LoadedWeights) -> None:
    """Record a call. Of calls on one module, those that match nothing count only where no other one matches.

    Some projects try one way of writing the keys after the other.
    """
    mine = [each for known, each in _calls if known() is module]
    if call.matched:
        _calls[:] = [(known, each) for known, each in _calls if each.matched or known() is not module]
    elif any(each.matched for each in mine):
        return
    _calls.append((weakref.ref(module), call))


def what_matched(
    module: nn.Module, state: Mapping[str, Any], missing: list[str], unexpected: list[str], caller: Any
) -> LoadedWeights:
    # Not from state_dict(), which may run hooks of the project once more.
    matched = len(set(state) - set(unexpected))
    call = LoadedWeights(
        type(module).__name__,
        len(state),
        len(missing) + matched,
        matched,
        next(iter(unexpected), ""),
        next(iter(missing), ""),
        place=of_frame(caller),
    )
    if not matched:
        call.surplus, call.lacking = common_prefix(unexpected, missing), common_prefix(missing, unexpected)
        holding = (
            key for key, value in state.items() if isinstance(value, Mapping) and not set(missing).isdisjoint(value)
        )
        call.nested = next(holding, "")
    return call


def common_prefix(longer: list[str], shorter: list[str]) -> str:
    """Return the prefix without which most of the longer keys are among the shorter ones, or "" where none is.

    Most of either, because one of the two may hold further keys: a new head, the weights of a loss. A prefix that is as
    good as another one explains nothing.
    """
    known, found = set(shorter), Counter[str]()
    for key in longer:
        parts = key.split(".")
        found.update(
            ".".join(parts[:count]) + "." for count in range(1, len(parts)) if ".".join(parts[count:]) in known
        )
    (best, matches), (_, others) = (*found.most_common(2), ("", 0), ("", 0))[:2]
    return best if matches > others and 2 * matches > min(len(longer), len(shorter)) else ""
