"""Which tensors objects hold: in attributes, containers, dataclasses and layers that nobody registered."""

import gc
import re
import sys
from collections import Counter, deque
from collections.abc import Iterable, Iterator
from contextlib import suppress
from itertools import islice
from types import CellType, FrameType, FunctionType, MethodType, ModuleType
from typing import Any
from weakref import ProxyTypes

import numpy as np
from torch import Tensor, nn
from torchmetrics import Metric

from training_checklist.engines.instead import Instead
from training_checklist.lightning import Callback, LightningDataModule, LightningModule, Trainer

DEPTH = 5  # of containers and objects
OBJECTS = 10_000  # looked at, where one generator is sought
MOST = 10_000  # items of a container
LOOKED_AT = 8  # tensors whose holder is looked for, each among all objects: some 0.1 s
PLUMBING = {*vars(nn.Module()), "_trainer"}  # attributes that hold no tensors of the project's own
LIBRARIES = (
    "torch",
    "pytorch_lightning",
    "lightning",
    "lightning_fabric",
)  # what these keep is no leak of the project's
ATOMS = (int, float, str, bytes, type(None))  # they keep nothing
CONTAINERS = (list, tuple, set, deque, dict)
SIZE = re.compile(r"_?(capacity|limit|(max|buffer|memory|queue)_?(size|len|length|items|entries)|maxlen)", re.I)
SIZES = ("size", "capacity", "limit", "length", "maxlen")
NOWHERE = "a variable outside of the model"
CLOSED = (str, bytes, type, FunctionType, MethodType, Instead, ModuleType, Trainer, LightningDataModule)


def attributes(model: nn.Module) -> Iterator[tuple[str, str, Any]]:
    """Yield module path, name and value of what `model` and its modules keep beside parameters, buffers and modules."""
    for path, module in model.named_modules():
        for name, value in own_values(module):
            if name not in PLUMBING:
                yield path, name, value
        for name, value in vars(type(module)).items():
            if isinstance(value, CONTAINERS):
                yield path, name, value


def held(
    value: Any, path: str, depth: int = DEPTH, layer: str | None = None
) -> Iterator[tuple[str, Tensor, str | None]]:
    """Yield path, tensor, and the layer that it is a parameter of, of each tensor in containers and objects."""
    if isinstance(value, Tensor):
        yield path, value, layer
    elif depth == 0 or isinstance(value, CLOSED):
        return
    elif isinstance(value, nn.Module):
        layer = layer or f"{path} ({type(value).__name__})"
        for name, tensor in (*value.named_parameters(), *value.named_buffers()):
            yield f"{path}.{name}", tensor, layer
        for inner, name, each in attributes(value):
            yield from held(each, ".".join(part for part in (path, inner, name) if part), depth - 1, layer)
    else:
        for form, key, each in parts(value):
            yield from held(each, path + form.format(key), depth - 1, layer)


def parts(thing: Any) -> Iterator[tuple[str, Any, Any]]:
    """Yield how a path goes on to a part, by what name, and the part; nothing of what refuses to be gone through."""
    with suppress(Exception):
        if isinstance(thing, dict):
            yield from (("[{!r}]", key, each) for key, each in islice(thing.items(), MOST))
        elif isinstance(thing, CONTAINERS):
            yield from (("[{}]", index, each) for index, each in enumerate(islice(thing, MOST)))
        elif hasattr(thing, "__dict__"):
            yield from ((".{}", name, each) for name, each in own_values(thing))


def own_values(thing: Any) -> Iterator[tuple[str, Any]]:
    """Yield what an object has of its own; a proxy keeps nothing, and fails whatever it is asked once that is gone."""
    yield from ((name, each) for name, each in vars(thing).items() if type(each) not in ProxyTypes)


def kept(thing: Any, path: str, kinds: tuple[type, ...], depth: int = DEPTH) -> Iterator[tuple[str, Any]]:
    """Yield path and value of everything of some kinds that an object keeps, in attributes and containers."""
    if isinstance(thing, kinds):
        yield path, thing
    elif depth == 0 or isinstance(thing, (*CLOSED, Tensor)):
        return
    else:
        for form, key, each in parts(thing):
            if not isinstance(each, ATOMS):
                yield from kept(each, path + form.format(key), kinds, depth - 1)


def all_kept(thing: Any, kinds: tuple[type, ...]) -> Iterator[Any]:
    """Yield everything of some kinds that an object keeps, once, however deep it lies: transforms hold transforms."""
    waiting, seen = [thing], set[int]()
    while waiting and len(seen) < OBJECTS:
        each = waiting.pop()
        if id(each) in seen or isinstance(each, ATOMS):
            continue
        seen.add(id(each))
        if isinstance(each, kinds):
            yield each
        elif not isinstance(each, (*CLOSED, Tensor)):
            waiting += (part for _, _, part in parts(each))


def places(pl_module: LightningModule, callbacks: Iterable[Callback]) -> Iterator[tuple[str, Any]]:
    """Yield name and value of what a project may keep tensors in, but not the states of metrics."""
    metrics = {path for path, module in pl_module.named_modules() if isinstance(module, Metric)}
    for path, name, value in attributes(pl_module):
        if path not in metrics:
            yield f"{path or type(pl_module).__name__}.{name}", value
    for path, module in pl_module.named_modules():
        if path not in metrics:
            for name, buffer in module.named_buffers(recurse=False):
                yield f"{path or type(pl_module).__name__}.{name}", buffer
    for callback in callbacks:
        yield from ((f"{type(callback).__name__}.{name}", value) for name, value in own_values(callback))
    source = type(pl_module).__module__
    for name, value in list(vars(sys.modules[source]).items()):
        if isinstance(value, (Tensor, *CONTAINERS)) and not name.startswith("__"):
            yield f"{source}.{name}", value


def plain_bytes(pl_module: LightningModule, callbacks: Iterable[Callback]) -> Counter[str]:
    """Return how many bytes of tensors each place keeps that may grow without an end."""
    kept: Counter[str] = Counter()
    own = {id(parameter) for parameter in pl_module.parameters()}  # which hyperparameters may hold once more
    found = [*places(pl_module, callbacks)]
    named = dict(found)
    for place, value in found:
        owner, _, name = place.rpartition(".")
        beside = (named.get(f"{owner}.{name.lstrip('_')}_{word}") for word in SIZES)  # self._replay, self.replay_size
        if not has_a_size(value) and not any(isinstance(each, int) for each in beside):
            kept[place] += sum(bytes_of(tensor) for _, tensor, _ in held(value, place) if id(tensor) not in own)
    return +kept


def bytes_of(value: Tensor | np.ndarray) -> int:
    """Return the bytes of the values of a tensor, of a sparse one those that it keeps, or of an array."""
    is_sparse = isinstance(value, Tensor) and str(value.layout).startswith("torch.sparse")
    return value._nnz() * value.element_size() if is_sparse else value.nbytes


def size_of(value: Any) -> int:
    """Return the bytes of all tensors and arrays that a sample or a batch is made of, each counted once."""
    return sum(map(bytes_of, all_kept(value, (Tensor, np.ndarray))))


def has_a_size(value: Any) -> bool:
    """Whether something fills up to a size of its own, as a replay buffer or a deque with maxlen does."""
    if isinstance(value, deque):
        return value.maxlen is not None
    if isinstance(value, (*CLOSED, nn.Module)) or not hasattr(value, "__dict__"):
        return False
    return any(
        (isinstance(each, deque) and each.maxlen is not None) or (isinstance(each, int) and SIZE.fullmatch(name))
        for name, each in vars(value).items()
    )


def graph_nodes(pl_module: LightningModule, callbacks: Iterable[Callback], anywhere: bool) -> Counter[str]:
    """Return how many of autograd's nodes each place keeps alive, and `anywhere`: tensors that are in none of them."""
    nodes: Counter[str] = Counter()
    known: set[int] = set()
    for place, value in places(pl_module, callbacks):
        found = [tensor for _, tensor, _ in held(value, place) if has_graph(tensor)]
        known.update(id(tensor) for tensor in found)
        nodes[place] += count_nodes(found)
    if not anywhere:
        return +nodes
    gc.collect()  # what cycles keep for a while is no leak
    nodes[NOWHERE] += count_nodes([each for each in with_graph() if id(each) not in known])
    return +nodes


def with_graph() -> list[Tensor]:
    """Return all tensors that there are with a graph."""
    return [each for each in gc.get_objects() if issubclass(type(each), Tensor) and has_graph(each)]


def has_graph(tensor: Tensor) -> bool:
    try:
        return tensor.grad_fn is not None
    except RuntimeError:  # a view whose base has changed since, as of spectral norm's vectors
        return False


def holder(tensors: list[Tensor]) -> str:
    """Return who keeps most of some tensors: "Tracker.losses", or NOWHERE."""
    names = Counter(holder_of(each, [tensors]) for each in tensors[:: max(1, len(tensors) // LOOKED_AT)])
    del names[""]
    return names.most_common(1)[0][0] if names else NOWHERE


def holder_of(tensor: Tensor, mine: list[Any]) -> str:
    """Return the name of what keeps a tensor, through containers and variables of functions, "" where none has one."""
    level, below, seen = [tensor], [], {id(each) for each in (*mine, mine)}
    for _ in range(DEPTH):
        seen |= {id(level), *map(id, level)}
        found = [each for each in gc.get_referrers(*level) if id(each) not in seen and not isinstance(each, FrameType)]
        names = (name_in(each, [*level, *below]) for each in found)  # below: an object is a referrer of its __dict__
        name = next(filter(None, names), "")
        if name:
            return name
        seen |= {id(found), id(below)}
        below, level = level, [each for each in found if isinstance(each, (*CONTAINERS, CellType))]
    return ""


def name_in(owner: Any, values: list[Any]) -> str:
    """Return the name by which an object, a module or a function keeps one of some values, "" where it is none."""
    if isinstance(owner, FunctionType):
        return f"a variable of {owner.__qualname__}"
    if isinstance(owner, dict):
        name = owner.get("__name__")
        is_module = isinstance(name, str) and vars(sys.modules.get(name, object)) is owner
        if not is_module:
            return ""
        inside = owner
    elif isinstance(owner, (Tensor, *CONTAINERS)) or not hasattr(owner, "__dict__"):
        return ""
    else:
        if type(owner).__module__.partition(".")[0] in LIBRARIES:
            return ""
        name, inside = type(owner).__name__, vars(owner)
    return next((f"{name}.{key}" for key, value in inside.items() if any(value is each for each in values)), "")


def count_nodes(tensors: Iterable[Tensor]) -> int:
    seen = set()
    todo = [tensor.grad_fn for tensor in tensors]
    while todo:
        node = todo.pop()
        if node is not None and node not in seen:
            seen.add(node)
            todo += [following for following, _ in node.next_functions]
    return len(seen)
