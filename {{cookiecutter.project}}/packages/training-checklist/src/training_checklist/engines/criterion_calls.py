"""Which tensors reach the criterion, whether it is a module or a function called in the step."""

import inspect
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import wraps
from types import FrameType
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from training_checklist.engines.observe import NOT_USERS
from training_checklist.engines.own_code import shorten
from training_checklist.lightning import LightningModule

# Of torch.nn.functional; the modules of torch.nn call them.
CRITERIA = {
    "cross_entropy",
    "nll_loss",
    "binary_cross_entropy",
    "binary_cross_entropy_with_logits",
    "mse_loss",
    "l1_loss",
    "smooth_l1_loss",
    "huber_loss",
    "kl_div",
}
CLASSIFIES = {"cross_entropy", "nll_loss"}  # (B, C, ...) against class indices (B, ...)
SOFTMAXES = {"softmax", "log_softmax", "special_softmax", "special_log_softmax"}
# Nodes of the graph that change no value.
VIEWS = ("View", "UnsafeView", "ReshapeAlias", "Squeeze", "Unsqueeze", "ToCopy", "Transpose", "Permute", "T", "Clone")


@dataclass
class CriterionCall:
    """One call of a criterion.

    Args:
        name: of the function in torch.nn.functional.
        options: further arguments, by name.
        place: module path and the user's line.
        result: the criterion's value, None where the call raised.
        outside: which labels the network has no output for, "" where it has one for all.
        first_outside: the first sample that has such a label.
    """

    name: str
    input: Tensor
    target: Tensor
    options: dict[str, Any]
    place: str
    result: Tensor | None = None
    outside: str = ""
    first_outside: int = 0

    @property
    def num_classes(self) -> int | None:
        """Width of the network's output, where the criterion takes one class index a sample."""
        if self.name not in CLASSIFIES or self.target.is_floating_point():
            return None
        return self.input.shape[1 if self.input.ndim > 1 else 0]

    @property
    def ignored(self) -> int:
        """The label that stands for none."""
        return self.options.get("ignore_index", -100)

    def look_at_labels(self) -> None:
        """Fill in `outside` and `first_outside`."""
        classes = self.num_classes
        if classes is None:
            return
        wrong = ((self.target < 0) | (self.target >= classes)) & (self.target != self.ignored)
        if wrong.any():
            labels = sorted({int(label) for label in self.target[wrong]})
            named = ", ".join(map(str, labels[:5]))
            self.outside = f"label {named} in the batch, but the network has {classes} outputs (0..{classes - 1})"
            self.first_outside = int(wrong.nonzero()[0, 0]) if wrong.ndim else 0


@dataclass
class SoftmaxCall:
    """One call of a softmax; `of_pairs` where its input is square and may compare all samples with all."""

    shape: tuple[int, ...]
    dim: int
    place: str
    of_pairs: bool


class CriterionCalls(TorchFunctionMode):
    """While it is entered, calls of criteria and softmaxes are recorded; they do what they always do."""

    def __init__(self, root: nn.Module) -> None:
        super().__init__()
        self.paths = {id(module): path for path, module in root.named_modules()}
        self.criteria: list[CriterionCall] = []
        self.softmaxes: list[SoftmaxCall] = []

    def __torch_function__(self, function: Any, types: Any, args: tuple = (), kwargs: dict | None = None) -> Any:
        name = getattr(function, "__name__", "")
        kwargs = kwargs or {}
        if name in SOFTMAXES and torch.is_grad_enabled():
            self._add_softmax(name, args, kwargs)
        if name not in CRITERIA or getattr(function, "__module__", "") != "torch.nn.functional":
            return function(*args, **kwargs)
        bound = inspect.signature(function).bind(*args, **kwargs)
        bound.apply_defaults()
        options = dict(bound.arguments)
        tensors = [options.pop("input"), options.pop("target")]
        call = CriterionCall(name, tensors[0], tensors[1], options, user_place(self.paths, f"F.{name}"))
        call.look_at_labels()  # before it runs: it may raise, and a GPU answers nothing after that
        self.criteria.append(call)
        call.result = function(*args, **kwargs)
        return call.result

    def _add_softmax(self, name: str, args: tuple, kwargs: dict) -> None:
        tensor = args[0] if args else kwargs["input"]
        dim = kwargs.get("dim", args[1] if len(args) > 1 else None)
        if dim is None:  # as torch.nn.functional has it, with a warning
            dim = 0 if tensor.ndim in (0, 1, 3) else 1
        if isinstance(dim, int) and tensor.ndim:
            place = user_place(self.paths, name.removeprefix("special_"))
            shape = tuple(tensor.shape)
            of_pairs = len(shape) == 2 and shape[0] == shape[1] and not made_by_weights(tensor)
            self.softmaxes.append(SoftmaxCall(shape, dim % tensor.ndim, place, of_pairs))


@contextmanager
def around_training_step(
    pl_module: LightningModule, *contexts: Any, tell: Callable[[Any], None] | None = None
) -> Iterator[None]:
    """Inside, every call of `training_step` runs within `contexts`, and `tell` is told what it returns."""
    told = [tell] if tell is not None else []
    outer = pl_module.__dict__.get("training_step")  # of another check that is around it already
    inside = wrap(pl_module.training_step, entered := list(contexts), told)
    pl_module.__dict__["training_step"] = inside
    try:
        yield
    finally:
        entered.clear()
        told.clear()  # another check may have wrapped this wrapper since, and keeps it
        if pl_module.__dict__.get("training_step") is inside:
            del pl_module.__dict__["training_step"]
            if outer is not None:
                pl_module.__dict__["training_step"] = outer


def wrap(step: Callable[..., Any], contexts: Sequence[Any], told: Sequence[Callable] = ()) -> Callable:
    @wraps(step)  # Lightning reads the signature
    def inside(*arguments: Any, **options: Any) -> Any:
        with ExitStack() as stack:
            for context in contexts:
                stack.enter_context(context)
            result = step(*arguments, **options)
            for tell in told:
                tell(result)
            return result

    return inside


def user_place(paths: dict[int, str], otherwise: str) -> str:
    """Return "criterion (CrossEntropyLoss), model.py:57 in Classifier.training_step" of the call that is being made.

    `otherwise` stands for the module where no module of torch makes the call.
    """
    caller = otherwise
    frame: FrameType | None = sys._getframe(2)
    while frame is not None and frame.f_code.co_filename.startswith(NOT_USERS):
        module = frame.f_locals.get("self")
        if isinstance(module, nn.Module):
            caller = f"{paths.get(id(module)) or 'a module made in the step'} ({type(module).__name__})"
        frame = frame.f_back
    if frame is None:
        return caller
    owner, function = frame.f_locals.get("self"), frame.f_code.co_name
    if isinstance(owner, nn.Module):
        function = f"{type(owner).__name__}.{function}"
        caller += f" in {paths[id(owner)]}" if paths.get(id(owner)) else ""
    return f"{caller}, {shorten(frame.f_code.co_filename)}:{frame.f_lineno} in {function}"


def last_operation(tensor: Tensor) -> str:
    """Return the operation that made the values of a tensor: "Softmax", "Relu", "Addmm" or "" for none."""
    node = behind_views(tensor.grad_fn)
    return "" if node is None else operation(node)


def made_by_weights(tensor: Tensor) -> bool:
    """Whether a tensor is what a layer returns, but for functions of single values."""
    node = tensor.grad_fn
    while node is not None:
        before = [behind_views(origin) for origin, _ in node.next_functions if origin is not None]
        if len(before) != 1:
            return any(origin is not None and operation(origin) == "AccumulateGrad" for origin in before)
        [node] = before
    return False


def behind_views(node: Any) -> Any:
    while node is not None and operation(node) in VIEWS:
        node = node.next_functions[0][0]
    return node


def operation(node: Any) -> str:
    name = node.name().rpartition("::")[2]
    return name if name == "AccumulateGrad" else name.partition("Backward")[0]
