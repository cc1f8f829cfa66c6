"""Methods that are named like hooks of Lightning, and that Lightning does not call."""

import inspect
import re
from collections.abc import Iterable, Iterator
from difflib import get_close_matches
from typing import Any

from training_checklist.engines.own_code import is_own_class
from training_checklist.engines.places import of_function
from training_checklist.evidence.stages import LikeHook
from training_checklist.lightning import Callback, LightningDataModule, LightningModule

KINDS = (LightningModule, LightningDataModule, Callback)
HOOK = re.compile(
    r"on_|configure_|transfer_|prepare_|(training|validation|test|predict|optimizer|scheduler)_step$|_dataloader$"
)
# Lightning 1's, each with what took its place.
FORMER = {
    "on_epoch_start": ["on_train_epoch_start"],
    "on_epoch_end": ["on_train_epoch_end"],
    "on_batch_start": ["on_train_batch_start"],
    "on_batch_end": ["on_train_batch_end"],
    "on_pretrain_routine_start": ["on_fit_start"],
    "on_pretrain_routine_end": ["on_fit_start"],
    "on_keyboard_interrupt": ["on_exception"],
}
CLOSE = 0.85  # of difflib: train_step and training_step have 0.87, training_step and validation_step 0.71


def hooks_of(kind: type) -> set[str]:
    return {name for name in dir(kind) if HOOK.search(name) and not name.startswith("_")}


def like_hooks(things: Iterable[Any], words: set[str]) -> Iterator[LikeHook]:
    """Yield the methods of modules, DataModules and callbacks that are named like hooks and override none.

    Args:
        words: all names that the project's code uses; a method among them may be called by it.
    """
    everywhere = set().union(*map(hooks_of, KINDS), FORMER)
    for thing in things:
        base = next(kind for kind in KINDS if isinstance(thing, kind))
        known = hooks_of(base)
        own = [each for each in type(thing).__mro__ if is_own_class(each)]
        others = [each for each in type(thing).__mro__ if each not in own]
        for owner in own:
            for name, method in vars(owner).items():
                if not inspect.isfunction(method) or any(hasattr(each, name) for each in others):
                    continue
                near = meant(name, known - overridden(own, known), everywhere)
                if near is not None:
                    elsewhere, place = name in everywhere - set(FORMER), of_function(method)
                    yield LikeHook(name, owner.__name__, base.__name__, name in words, near, elsewhere, place)


def overridden(own: list[type], known: set[str]) -> set[str]:
    return {name for each in own for name in vars(each) if name in known}


def meant(name: str, free: set[str], everywhere: set[str]) -> list[str] | None:
    """Return the hooks that a method may have been meant for, or None where it is named like none."""
    near = FORMER.get(name) or get_close_matches(name, sorted(free), n=2, cutoff=CLOSE)
    return near if near or name.startswith("on_") or name in everywhere else None
