"""Something of an experiment in the place of a method of one object, which stays an object that can be pickled."""

import inspect
from collections.abc import Callable
from functools import update_wrapper
from typing import Any


class Instead:
    """Called in the place of a method. A copy of its object, or a pickle, has the method itself.

    Args:
        owner: the object, in whose attributes it is put.
        name: of the method.
        function: what is called; whoever looks at the signature sees the method's.
    """

    def __init__(self, owner: Any, name: str, function: Callable[..., Any]) -> None:
        method = getattr(owner, name)
        update_wrapper(self, method, updated=())
        self.__wrapped__ = inspect.unwrap(method)  # Lightning looks behind one wrapper only
        self.owner, self.name, self.function = owner, name, function

    def __call__(self, *arguments: Any, **options: Any) -> Any:
        return self.function(*arguments, **options)

    def __reduce__(self) -> tuple[Any, ...]:
        return getattr, (self.owner, self.name)


def put(owner: Any, name: str, function: Callable[..., Any]) -> None:
    """Put something in the place of a method of one object."""
    vars(owner)[name] = Instead(owner, name, function)
