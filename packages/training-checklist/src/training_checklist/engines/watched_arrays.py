"""NumPy's arrays while samples are loaded: each operation is told to a listener, and does what it always does."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import wraps
from typing import Any
from unittest.mock import patch

import numpy as np
from torch.utils._pytree import tree_map

Told = Callable[[str, Callable[..., Any], tuple[Any, ...], Any], None]  # name, function, arguments, result
# By which arrays come into the project, or are made anew without a word.
ENTRANCES = ("load", "asarray", "ascontiguousarray", "array", "frombuffer", "fromfile", "loadtxt")


class Watched(np.ndarray):
    """An array whose operations are told; what they return is watched as well."""

    told: Told = staticmethod(lambda *_: None)

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *given: Any, **options: Any) -> Any:
        result = self._done(ufunc.__name__, getattr(ufunc, method), given, options, tell=method == "__call__")
        return options["out"][0] if "out" in options else result

    def __array_function__(self, function: Any, types: Any, given: Any, options: Any) -> Any:
        in_order = options.get("order", "C") == "C"
        return self._done(function.__name__, function, given, options, tell=function is np.reshape and in_order)

    def astype(self, *given: Any, **options: Any) -> Any:
        return self._done("astype", np.ndarray.astype, (self, *given), options, tell=True)

    def reshape(self, *given: Any, **options: Any) -> Any:
        return self._done("reshape", np.ndarray.reshape, (self, *given), options, tell=not options)

    def _done(self, name: str, function: Callable[..., Any], given: Any, options: Any, tell: bool) -> Any:
        given, options = plain(given), plain(options)
        before = tree_map(copied, given) if tell and "out" in options else given
        result = function(*given, **options)
        if tell:
            self.told(name, function, before, result)
        return watched(result)


def copied(value: Any) -> Any:
    return value.copy() if isinstance(value, np.ndarray) else value


def plain(values: Any) -> Any:
    return tree_map(lambda each: each.view(np.ndarray) if isinstance(each, Watched) else each, values)


def watched(values: Any) -> Any:
    """Return arrays as watched ones; any other kind of array, such as of records or a masked one, stays what it is."""
    kinds = (np.ndarray, np.memmap)
    return tree_map(lambda each: each.view(Watched) if type(each) in kinds else each, values)


@contextmanager
def watching(dataset: Any, told: Told) -> Iterator[None]:
    """While it is entered, the arrays of a dataset, of those that it wraps, and new ones are watched."""
    with ExitStack() as patches:
        patches.enter_context(patch.object(Watched, "told", staticmethod(told)))
        for name in ENTRANCES:
            patches.enter_context(patch.object(np, name, returning_watched(getattr(np, name))))
        while dataset is not None and hasattr(dataset, "__dict__"):
            for name, value in list(vars(dataset).items()):
                if type(value) in (np.ndarray, np.memmap):
                    patches.enter_context(patch.dict(vars(dataset), {name: value.view(Watched)}))
            dataset = vars(dataset).get("dataset")
        yield


def returning_watched(function: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(function)
    def call(*given: Any, **options: Any) -> Any:
        return watched(function(*given, **options))

    return call
