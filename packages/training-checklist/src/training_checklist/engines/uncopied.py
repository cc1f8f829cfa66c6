"""Hooks of this package on modules of the project, which may copy or pickle a module in the middle of an item."""

from collections import OrderedDict
from collections.abc import Callable, Iterable
from typing import Any

from torch import Tensor, nn
from torch._C import _functorch as functorch
from torch.jit import ScriptModule
from torch.utils.hooks import RemovableHandle


class Uncopied:
    """Calls a hook. In the place of a copy of it, nothing is called: whatever the hook belongs to is not copied."""

    def __init__(self, hook: Callable[..., Any]) -> None:
        self.hook = hook

    def __call__(self, *arguments: Any, **options: Any) -> Any:
        return None if in_vmap() else self.hook(*arguments, **options)

    def __deepcopy__(self, memo: dict[int, Any]) -> Callable[..., None]:
        return hook_of_a_copy()

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[()]]:
        return hook_of_a_copy, ()


def in_vmap() -> bool:
    """Whether `torch.vmap` calls: its tensors have no values to look at, and must not outlive the call."""
    if functorch.maybe_current_level() is None:
        return False
    return any(each.key() == functorch.TransformType.Vmap for each in functorch.get_interpreter_stack() or ())


def are_batched(values: Iterable[Any]) -> bool:
    """Whether tensors stand for those of many samples at once, and have no values to look at.

    Also those of `torch.autograd.functional.jacobian(vectorize=True)`, which has a vmap of its own.
    """
    return in_vmap() or any(isinstance(each, Tensor) and functorch.is_legacy_batchedtensor(each) for each in values)


def hook_of_a_copy() -> Callable[..., None]:
    return nothing


def nothing(*arguments: Any, **options: Any) -> None:
    pass


def after_forward(module: nn.Module, hook: Callable[..., Any]) -> RemovableHandle:
    """Call a hook after each call of a module; never where it is a ScriptModule, which takes no hooks."""
    return (
        RemovableHandle(OrderedDict())
        if isinstance(module, ScriptModule)
        else module.register_forward_hook(Uncopied(hook))
    )


def before_forward(module: nn.Module, hook: Callable[..., Any], **options: bool) -> RemovableHandle:
    """Call a hook before each call of a module, with the options of `register_forward_pre_hook`; else as above."""
    if isinstance(module, ScriptModule):
        return RemovableHandle(OrderedDict())
    return module.register_forward_pre_hook(Uncopied(hook), **options)
