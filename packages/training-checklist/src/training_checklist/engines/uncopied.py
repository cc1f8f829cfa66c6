"""Hooks of this package on modules of the project, which may copy or pickle a module in the middle of an item."""

from collections.abc import Callable
from typing import Any


class Uncopied:
    """Calls a hook. In the place of a copy of it, nothing is called: whatever the hook belongs to is not copied."""

    def __init__(self, hook: Callable[..., Any]) -> None:
        self.hook = hook

    def __call__(self, *arguments: Any, **options: Any) -> Any:
        return self.hook(*arguments, **options)

    def __deepcopy__(self, memo: dict[int, Any]) -> Callable[..., None]:
        return hook_of_a_copy()

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[()]]:
        return hook_of_a_copy, ()


def hook_of_a_copy() -> Callable[..., None]:
    return nothing


def nothing(*arguments: Any, **options: Any) -> None:
    pass
