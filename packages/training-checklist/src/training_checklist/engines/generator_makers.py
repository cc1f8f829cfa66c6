"""Functions and classes that make generators of random numbers, or seed them, with a look at what they are given."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import wraps
from types import ModuleType
from typing import Any
from unittest.mock import patch

from training_checklist.engines.own_code import pass_on

See = Callable[[tuple[Any, ...], dict[str, Any]], tuple[Any, ...]]  # what is given, and what is given on in its place


@contextmanager
def made_by(makers: Mapping[ModuleType, Sequence[str]], see: See) -> Iterator[None]:
    """While it is entered, `see` is told what they are given by position and by name, and says what they get."""
    with ExitStack() as patches:
        for module, names in makers.items():
            for name in names:
                patches.enter_context(patch.object(module, name, seen(getattr(module, name), see)))
        yield


def seen(function: Any, see: See) -> Any:
    if isinstance(function, type):  # the generators that it makes stay of that class, and those that it has made are

        class SameInstances(type(function)):
            def __instancecheck__(cls, instance: Any) -> bool:
                return isinstance(instance, function)

        class Seen(function, metaclass=SameInstances):
            def __init__(self, *given: Any, **options: Any) -> None:
                super().__init__(*see(given, options), **options)

        return Seen

    @wraps(function)
    def call(*given: Any, **options: Any) -> Any:
        return pass_on(function, *see(given, options), **options)

    return call
