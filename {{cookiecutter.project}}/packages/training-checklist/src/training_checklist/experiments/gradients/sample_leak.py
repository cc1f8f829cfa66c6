"""Does the output for one sample depend on the others of its batch?"""

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode
from torchmetrics import Metric

from training_checklist.engines.batches import tensors
from training_checklist.engines.observe import Places
from training_checklist.engines.replay import unchanged, unwatched
from training_checklist.lightning import LightningModule

KEPT = 4  # calls of outermost modules


class SampleLeak:
    """Keeps the calls of the outermost modules in a training step, and makes them again in eval mode."""

    def __init__(self, pl_module: LightningModule) -> None:
        self.root = pl_module
        self._calls: list[tuple[nn.Module, tuple[Any, Any]]] = []
        modules = [pl_module, *(module for module in pl_module.children() if not isinstance(module, Metric))]
        self._handles = [module.register_forward_pre_hook(self._keep, with_kwargs=True) for module in modules]

    def find(self) -> Iterator[tuple[str, str, int]]:
        """Yield each operation that mixes samples, its place, and how many samples there are."""
        for handle in self._handles:
            handle.remove()
        training = [module for module in self.root.modules() if module.training]
        with unwatched(self.root), unchanged(self.root):
            self.root.eval()
            found = [(leak(self.root, module, given), batch_size(given)) for module, given in self._calls]
        for module in training:
            module.training = True
        yield from ((*operation, size) for operation, size in found if operation is not None)

    def _keep(self, module: nn.Module, arguments: Any, options: Any) -> None:
        if len(self._calls) < KEPT and all(known is not self.root for known, _ in self._calls):
            self._calls.append((module, (arguments, options)))


class Operations(TorchFunctionMode):
    """While it is entered, what goes into every operation and what comes out is kept."""

    def __init__(self, root: nn.Module) -> None:
        super().__init__()
        self.places = Places(root)
        self.calls: list[tuple[str, str, list[Tensor], list[Tensor]]] = []

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        given = list(tensors([args, kwargs or {}]))
        result = function(*args, **(kwargs or {}))
        made = list(tensors(result))
        if made:
            self.calls.append((getattr(function, "__name__", "?"), self.places.near(), given, made))
        return result


def leak(root: nn.Module, module: nn.Module, given: tuple[Any, ...]) -> tuple[str, str] | None:
    """Return the operation, with its place, that lets samples see each other, or None.

    One sample is replaced in the arguments `given` of a module, which is in eval mode; the outputs of the others must
    stay. Silent where the batch cannot be told from other dimensions, as with graphs and pairs of samples.
    """
    size = batch_size(given)
    if size is None:
        return None
    changed = size // 2  # in the middle: a recurrent network that takes the batch for time sees it from either side
    (clean, before), (other, after) = run(root, module, given), run(root, module, replace(given, changed, size))
    outputs = [tensor for tensor in tensors(clean) if tensor.ndim]
    if not outputs or not all(len(output) == size not in output.shape[1:] for output in outputs):
        return None
    if not spread(tensors(clean), tensors(other), changed, size):
        return None
    for (name, place, given_before, made_before), (_, _, given_after, made_after) in zip(before, after, strict=False):
        if spread(made_before, made_after, changed, size) and not spread(given_before, given_after, changed, size):
            return None if name == "batch_norm" else (name, place)  # without running statistics it is meant to
    return "an operation", f"{type(module).__name__}.forward"


def run(root: nn.Module, module: nn.Module, given: tuple[Any, ...]) -> tuple[Any, list[Any]]:
    torch.manual_seed(0)
    with Operations(root) as operations, torch.no_grad():
        result = module(*given[0], **given[1])
    return result, operations.calls


def batch_size(given: Any) -> int | None:
    """Return the first dimension of all tensors, where none has that size in another dimension; else None."""
    found = list(tensors(given))
    sizes = {len(tensor) for tensor in found if tensor.ndim}
    if len(sizes) != 1 or max(sizes) < 3 or any(tensor.is_sparse for tensor in found):
        return None
    [size] = sizes
    return None if any(size in tensor.shape[1:] for tensor in found) else size


def replace(value: Any, changed: int, size: int) -> Any:
    """Return a copy of nested tensors in which one sample has the values of another, twice as large if real."""
    if isinstance(value, Tensor):
        if not value.ndim:
            return value
        copy = value.detach().clone()
        rows = copy.flatten(1) if copy.ndim > 1 else copy[:, None]
        different = (rows != rows[changed]).float().mean(1).argmax()
        copy[changed] = copy[different] * (2 if copy.is_floating_point() else 1)
        return copy
    if isinstance(value, dict):
        return {key: replace(item, changed, size) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        items = [replace(item, changed, size) for item in value]
        return type(value)(*items) if hasattr(value, "_fields") else type(value)(items)
    return value


def spread(before: Any, after: Any, changed: int, size: int) -> bool:
    """Whether tensors differ elsewhere than in one sample."""
    return any(differs(one, two, changed, size) for one, two in zip(before, after, strict=False))


def differs(one: Tensor, two: Tensor, changed: int, size: int) -> bool:
    if one.shape != two.shape or not one.is_floating_point() or not one.numel():
        return False
    one, two = one.detach().float(), two.detach().float()
    tolerance = 1e-5 * float(one.nan_to_num(0, 0, 0).abs().max())
    changes = ~torch.isclose(one, two, rtol=1e-4, atol=tolerance, equal_nan=True)
    if size not in one.shape and one.ndim and len(one) % size == 0:  # samples and positions in one dimension
        changes = changes.reshape(size, -1)
    if size not in changes.shape:  # what is left of all samples together
        return bool(changes.any())
    changes = changes.movedim(changes.shape.index(size), 0)
    return bool(changes[:changed].any() or changes[changed + 1 :].any())
