"""Steps of the project, run once more without a trace. The only replay."""

import copy
import inspect
import random
from collections import OrderedDict, defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import is_dataclass
from functools import cache, partial
from operator import is_
from typing import Any
from unittest.mock import patch

import numpy
import torch
from torch import Tensor, nn
from torch.jit import ScriptModule
from torchmetrics import Metric

from training_checklist.engines.batches import mapped
from training_checklist.engines.instead import Instead
from training_checklist.engines.uncopied import Uncopied
from training_checklist.lightning import LightningModule, Trainer, isolate_rng

LOGS = ("log", "log_dict")
COLLECTING = (list, dict, deque, defaultdict, OrderedDict)  # others may refuse to be emptied
MOST_SEARCHED = 1000  # values of a container: of more, as of a dataset that is kept, none collects
OF_TORCH = set(vars(nn.Module()))
PLAIN = (bool, int, float, str, type(None), Tensor, list)


def call_step(pl_module: LightningModule, step: str, batch: Any, batch_idx: int = 0) -> Any:
    """Call `training_step` and its like with as many arguments as the project's own version takes.

    With several loaders that includes the index of one: it is the first. As under Lightning, a training step can take
    a gradient itself, that of an energy for the forces, say, and what a step writes into its batch is gone afterwards.
    A step may clear the Trainer's callbacks where it raises; the Trainer keeps them.
    """
    function = getattr(pl_module, step)
    taken = list(inspect.signature(function).parameters.values())
    by_position = [each for each in taken if each.kind in (each.POSITIONAL_ONLY, each.POSITIONAL_OR_KEYWORD)]
    open_ended = any(each.kind is each.VAR_POSITIONAL for each in taken)
    needed = sum(each.default is each.empty for each in by_position)
    trainer = pl_module.trainer
    keeps = patch.object(trainer, "callbacks", [*trainer.callbacks])
    with keeps, torch.enable_grad() if step == "training_step" else nullcontext():
        given = (in_own_containers(batch), batch_idx, 0)
        result = function(*given[: 2 if open_ended else max(1, min(2, len(by_position)), needed)])
    let_go_of_graphs(pl_module)
    return result


def let_go_of_graphs(pl_module: LightningModule) -> None:
    """Detach what metrics keep: where no backward pass follows, each answer in a list would keep all that it needs."""
    for metric in (part for part in pl_module.modules() if isinstance(part, Metric)):
        for name in metric._defaults.keys() & vars(metric).keys():  # a wrapper shows those of what it wraps
            state = vars(metric)[name]
            if isinstance(state, list):
                state[:] = [each.detach() for each in state]  # the same list: metrics of a collection share it
            elif state.requires_grad:
                vars(metric)[name] = state.detach()


def in_own_containers(batch: Any, change: Callable[[Tensor], Tensor] = lambda tensor: tensor) -> Any:
    """Return a batch in containers of its own, as moving it to a device makes one; of the same tensors, or changed."""
    if type(batch) in (list, tuple):
        return type(batch)(in_own_containers(each, change) for each in batch)
    if type(batch) is dict:
        return {key: in_own_containers(each, change) for key, each in batch.items()}
    is_plain = isinstance(batch, (Tensor, Mapping, type)) or is_dataclass(batch) or not hasattr(batch, "__dict__")
    if is_plain or (isinstance(batch, tuple) and not hasattr(batch, "to")):
        return mapped(batch, change)
    try:
        copied = copy.copy(batch)  # an object such as a graph, which may hold its tensors in a dict of its own
    except Exception:  # of any kind, where its __getattr__ expects what a copy is only given later
        return batch
    for name, value in vars(copied).items():
        if type(value) in (list, tuple, dict):
            vars(copied)[name] = in_own_containers(value, change)
    return copied


def as_loaded(batch: Any) -> Any:
    """Return a batch of tensors of its own: a step may write into them, or have them require gradients."""
    return in_own_containers(batch, lambda tensor: tensor.detach().clone().requires_grad_(tensor.requires_grad))


def loss_in(result: Any) -> Tensor | None:
    """Return the loss in what a training step returns, or None where there is none."""
    loss = result.get("loss") if isinstance(result, Mapping) else result
    return loss if isinstance(loss, Tensor) else None


def reported_loss(outputs: Any, trainer: Trainer) -> Tensor | None:
    """Return the loss of a step from what `on_train_batch_end` is given, or None where there is none.

    Lightning has divided it by the number of batches that it accumulates.
    """
    loss = loss_in(outputs)
    return None if loss is None else loss * trainer.accumulate_grad_batches


@cache
def has_accelerator() -> bool:
    return torch.accelerator.is_available()


def seed_all(seed: int = 0) -> None:
    """Let Python, NumPy and torch draw from the same random numbers each time."""
    random.seed(seed)
    numpy.random.seed(seed)
    if has_accelerator():
        torch.manual_seed(seed)
    else:  # torch.manual_seed keeps each call, with its stack of 3 ms, for devices that may be used later
        torch.default_generator.manual_seed(seed)


@contextmanager
def isolated(pl_module: LightningModule, training: bool | None = None) -> Iterator[None]:
    """Let the module run once more inside, as its project made it: no hook of an experiment is on it.

    Nothing is logged. Afterwards plain attributes, buffers, weights, gradients, modes and random numbers are what they
    were. Weights that are trained inside need a copy: `stand_in`.

    Args:
        training: the mode that all modules are put into; None: as they are.
    """
    modes = [(module, module.training) for module in pl_module.modules()]
    weights = [(weight, weight.data, weight.grad) for weight in pl_module.parameters()]
    with unwatched(pl_module), unchanged(pl_module):
        try:
            if training is not None:
                pl_module.train(training)
            for weight, _, _ in weights:
                weight.grad = None
            yield
        finally:
            for weight, data, gradient in weights:
                weight.data, weight.grad = data, gradient
            for module, mode in modes:
                module.training = mode


@contextmanager
def unwatched(pl_module: LightningModule) -> Iterator[None]:
    """Let the model be inside what its project made it: no hook and no wrapper of an experiment is on it.

    What one experiment runs for itself, another must not take for the run; nor do copies take hooks along.
    """
    hooks = [each for module in pl_module.modules() for each in (module._forward_pre_hooks, module._forward_hooks)]
    taken = []
    for values in (*hooks, vars(pl_module)):
        own = {key: value for key, value in values.items() if is_experiments(value)}
        taken.append((values, own))
        for key, value in own.items():
            del values[key]
            if isinstance(value, Instead) and value.held is not None:
                values[key] = value.held
    try:
        yield
    finally:
        for values, own in taken:
            values.update(own)


def is_experiments(function: Any) -> bool:
    """Whether a function is defined in this package."""
    if isinstance(function, (Instead, Uncopied)):
        return True
    while isinstance(function, partial):
        function = function.func
    names = getattr(getattr(function, "__func__", function), "__globals__", {})
    return str(names.get("__name__")).startswith("training_checklist.")


@contextmanager
def unchanged(pl_module: LightningModule) -> Iterator[None]:
    """Let the model run once more inside: nothing is logged, and its state and random numbers are put back."""
    kept = [
        (values, {key: value for key, value in values.items() if isinstance(value, PLAIN)})
        for module in pl_module.modules()
        for values in (vars(module), module._buffers)
        if isinstance(values, dict)
    ]
    scripted = [
        (module, name, buffer)
        for module in pl_module.modules()
        if isinstance(module, ScriptModule)  # whose buffers lie in no dictionary
        for name, buffer in module.named_buffers(recurse=False)
    ]
    logs = {name: vars(pl_module)[name] for name in LOGS if name in vars(pl_module)}
    try:
        with isolate_rng(), collecting_nothing(pl_module):
            for values, saved in kept:  # copies: a graph that waits for its backward may need the originals as they are
                values.update({key: copied(value) for key, value in saved.items()})
            for module, name, buffer in scripted:
                setattr(module, name, copied(buffer))
            vars(pl_module).update(dict.fromkeys(LOGS, ignore))
            yield
    finally:
        for name in LOGS:
            vars(pl_module).pop(name, None)
        vars(pl_module).update(logs)
        for values, saved in kept:
            values.update(saved)
        for module, name, buffer in scripted:
            setattr(module, name, buffer)


@contextmanager
def collecting_nothing(module: nn.Module) -> Iterator[None]:
    """Lists, dicts and queues that modules keep hold afterwards what they held before.

    Losses are often collected for the end of an epoch. Where no backward pass follows, each one keeps its whole graph.
    """
    owned = (value for part in module.modules() for name, value in vars(part).items() if name not in OF_TORCH)
    before = [(container, container.copy()) for container in containers(owned)]
    try:
        yield
    finally:
        for container, content in before:
            if not same_content(container, content):
                container.clear()
                container.update(content) if isinstance(container, dict) else container.extend(content)


def containers(values: Iterable[Any]) -> Iterator[Any]:
    """Yield lists, dicts and queues among some values, and in one another, each once."""
    waiting, known = [*values], set()
    while waiting:
        value = waiting.pop()
        if type(value) in COLLECTING and id(value) not in known:
            known.add(id(value))
            yield value
            if len(value) <= MOST_SEARCHED:
                waiting += value.values() if isinstance(value, dict) else value


def same_content(one: Any, other: Any) -> bool:
    if len(one) != len(other):
        return False
    parts = [(*each.keys(), *each.values()) if isinstance(each, dict) else each for each in (one, other)]
    return all(map(is_, *parts))


def copied(value: Any) -> Any:
    return value.detach().clone() if isinstance(value, Tensor) else list(value) if isinstance(value, list) else value


def ignore(*arguments: Any, **options: Any) -> None:
    pass
