from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.utils._pytree import tree_map_only

from training_checklist.instruments import (
    Call,
    FirstSteps,
    Listener,
    Small,
    Tracer,
    first_difference,
    holds_numbers,
    isolated,
    of_function,
    of_the_project,
    seed_all,
    several_steps,
    tensors,
)
from training_checklist.probe import CannotJudge, Fix, Hit, Hits, Limits, Place, Probe


def detect(steps: FirstSteps, limits: Limits) -> Hits:
    """Make the calls of the outermost modules again in eval mode, with one sample changed."""
    root, trainer, told = steps.pl_module, steps.trainer, False
    if len(trainer.optimizers) > 1:
        raise CannotJudge("networks that train against each other may compare samples")
    assert steps.after_first
    with of_the_project("a module that is called again"), isolated(root, training=False):
        for module, given in steps.calls:
            if not any(True for _ in module.parameters()):  # a loss may compare samples
                continue
            given = given if batch_size(given) is not None else cut(given)
            size = batch_size(given)
            # Rows that a collate function has made, of which a sample has several, may see each other.
            are_samples = size is not None and steps.size in (None, size, size + 1)  # or cut
            if are_samples and not is_turned(given, size, steps.size):
                told = True
                with trainer.precision_plugin.forward_context():
                    leaking = leak(root, module, given, size)
                    if leaking is not None and not takes_fewer(module, given):
                        raise CannotJudge("a module takes this number of rows only, as of the nodes of one graph")
                if leaking is not None:
                    operation, place = leaking
                    what = f"one sample changes the outputs of the others: {operation} mixes the {size} samples"
                    yield Hit(f"{what} of the batch", place)
    if not told:
        raise CannotJudge("the batch cannot be told from the other dimensions of what the modules are given")


def is_turned(given: Any, size: int, samples: int | None) -> bool:
    """Whether a module is given another dimension first, and samples after it, as PyTorch's layers take series."""
    told = samples is not None and samples not in (size, size + 1)  # or cut
    return told and any(samples in tensor.shape[1:2] for tensor in tensors(given))


class Operations(Listener):
    """Keeps what goes into every operation and what comes out."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, Place, list[Tensor], list[Tensor]]] = []

    def after(self, call: Call) -> None:
        if call.made:
            self.calls.append((call.name, call.place, call.given, call.made))


def leak(root: nn.Module, module: nn.Module, given: tuple[Any, ...], size: int) -> tuple[str, Place] | None:
    """Return the operation, with its place, that lets samples see each other, or None.

    One sample is replaced in the arguments `given` of a module, which is in eval mode; the outputs of the others must
    stay. Silent where the batch cannot be told from other dimensions, as with graphs and pairs of samples.
    """
    changed = size // 2  # in the middle: a recurrent network that takes the batch for time sees it from either side
    (clean, before), (other, after) = run(root, module, given), run(root, module, replace(given, changed, size))
    outputs = [tensor for tensor in tensors(clean) if tensor.ndim]
    if not outputs or not all(len(output) == size not in output.shape[1:] for output in outputs):
        return None
    # Of the outputs for each sample: a loss beside them is made of all.
    if not spread(outputs, (tensor for tensor in tensors(other) if tensor.ndim), changed, size):
        return None

    def stays(one: Any, two: Any) -> bool:
        return spread(one[2], two[2], changed, size) or not spread(one[3], two[3], changed, size)

    first = first_difference(before, after, stays)
    if first is None or first.one is None or first.two is None:
        return "an operation", of_function(type(module).forward)
    # Without running statistics it is meant to.
    return None if first.one[0] == "batch_norm" else first.one[:2]


def takes_fewer(module: nn.Module, given: Any) -> bool:
    """Whether a module also answers when there is a row less."""
    fewer = cut(given)
    with torch.no_grad():
        try:
            module(*fewer[0], **fewer[1])
        except Exception:  # whatever a network of the project's own raises
            return False
    return True


def run(root: nn.Module, module: nn.Module, given: tuple[Any, ...]) -> tuple[Any, list[Any]]:
    seed_all()
    operations = Operations()
    with Tracer(root, operations), torch.no_grad():
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


def cut(given: Any) -> Any:
    """Return the arguments with a sample less: images of 32 by 32 in batches of 32 tell no dimension from another."""
    found = [tensor for tensor in tensors(given) if tensor.ndim]
    sizes = {len(tensor) for tensor in found}
    # One is left out, and one is looked at between two others.
    if len(sizes) != 1 or max(sizes) < 4 or any(each.is_sparse for each in found):
        return given
    return tree_map_only(Tensor, lambda tensor: tensor[:-1] if tensor.ndim else tensor, given)


def replace(value: Any, changed: int, size: int) -> Any:
    """Return a copy of nested tensors in which one sample has the values of another, real ones twice as large.

    Whole numbers may be a mask, or count what belongs to a sample: twice as much would reach into the next one.
    """
    if isinstance(value, Tensor):
        if not value.ndim or not holds_numbers(value):
            return value
        copy = value.detach().clone()
        rows = copy.flatten(1) if copy.ndim > 1 else copy[:, None]
        different = (rows != rows[changed]).float().mean(1).argmax()
        is_real = copy.is_floating_point() and not torch.equal(copy, copy.round())
        copy[changed] = copy[different] * (2 if is_real else 1)
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
    if not (holds_numbers(one) and holds_numbers(two)) or one.shape != two.shape or not one.is_floating_point():
        return False
    one, two = one.detach().float(), two.detach().float()
    # Float32 keeps 7 digits; sums of a kernel may come in another order, which takes two of them, and three near 0.
    tolerance = 1e-5 * float(one.nan_to_num(0, 0, 0).abs().max())
    changes = ~torch.isclose(one, two, rtol=1e-4, atol=tolerance, equal_nan=True)
    if size not in one.shape and one.ndim and len(one) % size == 0:  # samples and positions in one dimension
        changes = changes.reshape(size, -1)
    if size not in changes.shape:  # what is left of all samples together
        return bool(changes.any())
    changes = changes.movedim(changes.shape.index(size), 0)
    return bool(changes[:changed].any() or changes[changed + 1 :].any())


class Softmax(Small):
    over = 0  # the batch

    def forward(self, inputs: Tensor) -> Tensor:
        hidden = torch.relu(self.first(inputs))
        return self.head(hidden * functional.softmax(hidden, dim=self.over))


PROBE = Probe(
    question="Does each sample's output depend on that sample only, and not on others of its batch?",
    why="what the model answers for a sample depends on what happens to be beside it, also in eval mode",
    fix=Fix("let it work along the features: softmax(dim=-1), mean(dim=1), batch_first=True"),
    detect=detect,
    faulty=several_steps(Softmax, batch_size=6),
    healthy=several_steps(type("OverFeatures", (Softmax,), {"over": 1}), batch_size=6),
)
