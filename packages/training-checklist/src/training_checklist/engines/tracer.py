"""Operations of torch as they are called, told to listeners. The only function mode of this package."""

from collections.abc import Callable
from typing import Any

from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from training_checklist.engines.batches import tensors
from training_checklist.engines.own_code import is_own, pass_on
from training_checklist.engines.places import Places, caller
from training_checklist.engines.uncopied import in_vmap
from training_checklist.finding import Place


class Call:
    """One call of an operation.

    Attributes:
        function: of torch.
        given: the tensors among its arguments.
        result: what it returned; a listener may put something else in its place.
    """

    __slots__ = ("_given", "_place", "_places", "args", "function", "kwargs", "result")

    def __init__(self, function: Callable[..., Any], args: tuple, kwargs: dict[str, Any], places: Places) -> None:
        self.function, self.args, self.kwargs, self.result = function, args, kwargs, None
        self._places = places
        self._place: Place | None = None
        self._given: list[Tensor] | None = None

    @property
    def name(self) -> str:
        """As in torch: "cross_entropy", "__get__" of an attribute such as `.data`."""
        return getattr(self.function, "__name__", str(self.function))

    @property
    def is_functional(self) -> bool:
        """Whether it is one of torch.nn.functional."""
        return getattr(self.function, "__module__", "") == "torch.nn.functional"

    @property
    def given(self) -> list[Tensor]:
        if self._given is None:
            self._given = list(tensors((self.args, self.kwargs)))
        return self._given

    @property
    def made(self) -> list[Tensor]:
        """The tensors in its result."""
        return list(tensors(self.result))

    @property
    def place(self) -> Place:
        """Where it is called. To be asked for while it is: the call stack tells."""
        if self._place is None:
            self._place = self._places.here(outside=TRACING)
        return self._place

    @property
    def is_own(self) -> bool:
        """Whether the line that calls it is the project's own. To be asked for while it is."""
        return is_own(caller(outside=TRACING))

    def argument(self, name: str, position: int, default: Any = None) -> Any:
        """Return an argument that may be given by position or by name."""
        return self.args[position] if len(self.args) > position else self.kwargs.get(name, default)


class Listener:
    """Is told of every operation while a tracer is entered."""

    def before(self, call: Call) -> None:
        """Look at what goes in: it may raise, and a GPU answers nothing after that."""

    def after(self, call: Call) -> None:
        """Look at what came out, or put something else there."""


class Tracer(TorchFunctionMode):
    """While it is entered, every operation is told to the listeners, before and after; it does what it always does.

    Args:
        root: the network whose module paths are named.
    """

    def __init__(self, root: nn.Module, *listeners: Listener) -> None:
        super().__init__()
        self.places, self.listeners = Places(root), listeners

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if in_vmap():
            return pass_on(function, *args, **(kwargs or {}))
        call = Call(function, args, kwargs or {}, self.places)
        for listener in self.listeners:
            listener.before(call)
        call.result = pass_on(function, *args, **call.kwargs)
        for listener in self.listeners:
            listener.after(call)
        return call.result


TRACING = Tracer.__torch_function__.__code__  # what is outside of its frame calls the operation
