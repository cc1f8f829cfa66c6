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

    Attributes:
        held: what the object itself has under the name, such as the `forward` of a compiled module; None: its class's.
    """

    def __init__(self, owner: Any, name: str, function: Callable[..., Any]) -> None:
        method = getattr(owner, name)
        update_wrapper(self, method, updated=())
        self.__wrapped__ = inspect.unwrap(method)  # Lightning looks behind one wrapper only
        held = vars(owner).get(name)
        self.held = held.held if isinstance(held, Instead) else held
        self.owner, self.name, self.function = owner, name, function

    def __call__(self, *arguments: Any, **options: Any) -> Any:
        return self.function(*arguments, **options)

    def __reduce__(self) -> tuple[Any, ...]:
        return (getattr, (self.owner, self.name)) if self.held is None else (itself, (self.held,))


def itself(held: Any) -> Any:
    return held


def put(owner: Any, name: str, function: Callable[..., Any]) -> Callable[[], None]:
    """Put something in the place of a method of one object; what this returns puts back what was there."""
    vars(owner)[name] = inside = Instead(owner, name, function)

    def put_back() -> None:  # never what another experiment has put there, which may have left before this one
        vars(owner).pop(name, None)
        if inside.held is not None:
            vars(owner)[name] = inside.held

    return put_back
