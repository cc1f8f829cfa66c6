"""A copy of a LightningModule whose steps leave no trace: nothing is logged and no optimizer moves."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from copy import copy as shallow_copy
from copy import deepcopy
from functools import partial, wraps
from types import CellType, FunctionType, MethodType
from typing import Any
from unittest.mock import patch

from torch import Tensor, nn, zeros
from torch.nn.parameter import is_lazy
from torch.optim import Optimizer
from torchmetrics import Metric, MetricCollection

from training_checklist.engines.batches import tensors
from training_checklist.engines.held import attributes, has_graph, held
from training_checklist.engines.replay import as_loaded, ignore, unwatched
from training_checklist.lightning import LightningModule, Trainer

COMPILED = "_torchdynamo_orig_callable"  # of what torch.compile makes of a function
MUTED = ("log", "log_dict", "print", "manual_backward", "clip_gradients", "toggle_optimizer", "untoggle_optimizer")


def still(driven: Any) -> Any:
    """Return a copy of an optimizer or a schedule for a step that drives it by hand: it answers, and moves nothing."""
    copy = object.__new__(type(driven))
    vars(copy).update(vars(driven), step=ignore, zero_grad=ignore)
    if isinstance(driven, Optimizer):  # what LightningOptimizer adds to one
        groups = [dict(group) for group in driven.param_groups]  # whose rates a step may set
        vars(copy).update(param_groups=groups, optimizer=copy, toggle_model=lambda **_: nullcontext())
    return copy


def one_or_all(driven: list[Any]) -> Any:
    """Answer as Lightning's `optimizers()` and `lr_schedulers()` do: with one alone, with several in a list."""
    return driven[0] if len(driven) == 1 else driven


def stand_in(pl_module: LightningModule, trainer: Trainer, copies: dict[int, Any] | None = None) -> LightningModule:
    """Return a deep copy that knows the Trainer, which does not know it.

    Args:
        copies: is told of every copy by the id of its original, for what else is to be copied along: an optimizer.
    """
    copies = {} if copies is None else copies
    kept = [tensor for _, _, value in attributes(pl_module) for _, tensor, _ in held(value, "")]
    kept += pl_module.buffers()
    # Tensors with a graph, such as the last loss, refuse to be copied; their detached twins are alive in `copies`.
    copies |= {id(tensor): tensor.detach() for tensor in kept if has_graph(tensor)} | {id(trainer): trainer}
    with unwatched(pl_module):
        copy = deepcopy(pl_module, copies)
    let_go_of_original(copy, copies)
    copy.trainer = trainer
    for name in MUTED:
        setattr(copy, name, ignore)
    optimizers = [still(each) for each in trainer.optimizers]
    schedules = [still(each.scheduler) for each in trainer.lr_scheduler_configs]
    copy.optimizers = lambda *_, **__: one_or_all(optimizers)
    copy.lr_schedulers = lambda: one_or_all(schedules) or None
    return copy


def let_go_of_original(copy: nn.Module, copies: dict[int, Any]) -> None:
    """Give every module functions of its own where an attribute is one that holds a part of the original.

    Functions are not copied with their object: `self.scale = lambda x: self.net(x)` would go on asking the original.
    `trainer.fit(torch.compile(model))` puts wrappers of methods into the model, with which the copy's steps would train
    the original: it gets its class's own method. LightningCLI gives a module a method that holds its optimizer.
    """
    for module in copy.modules():
        for name, value in [*vars(module).items()]:
            if isinstance(value, FunctionType) and reaches(value, copies):
                if hasattr(value, COMPILED) and hasattr(type(module), name):
                    delattr(module, name)
                else:
                    vars(module)[name] = of_copies(value, copies)
            elif isinstance(value, MethodType) and isinstance(value.__func__, partial):
                vars(module)[name] = MethodType(with_own_arguments(value.__func__, copies), value.__self__)


def with_own_arguments(function: partial, copies: dict[int, Any]) -> partial:
    own = partial(function.func, *deepcopy(function.args, copies), **deepcopy(function.keywords, copies))
    vars(own).update(vars(function))
    for key, given in function.keywords.items():
        if isinstance(given, Optimizer) and "step" in vars(given):
            count_steps(own.keywords[key])
    return own


def count_steps(optimizer: Optimizer) -> None:
    """Let an optimizer tell its schedule of each step: what torch's schedules put over `step`, a copy is without."""
    step = optimizer.step

    @wraps(step)
    def counted(*arguments: Any, **options: Any) -> Any:
        optimizer._opt_called = True
        return step(*arguments, **options)

    counted._wrapped_by_lr_sched = True
    optimizer.step = counted


def of_copies(function: FunctionType, copies: Mapping[int, Any]) -> FunctionType:
    """Return a function that holds the copies where another one holds their originals."""

    def copied(held: Any) -> Any:
        if isinstance(held, FunctionType) and held is not function:
            return of_copies(held, copies)
        if isinstance(held, MethodType) and id(held.__self__) in copies:
            return MethodType(held.__func__, copies[id(held.__self__)])
        return copies.get(id(held), held) if isinstance(held, nn.Module) else held

    cells = tuple(
        cell if cell == CellType() else CellType(copied(cell.cell_contents)) for cell in function.__closure__ or ()
    )
    own = FunctionType(function.__code__, function.__globals__, function.__name__, function.__defaults__, cells)
    own.__kwdefaults__ = function.__kwdefaults__
    vars(own).update(vars(function))
    return own


def reaches(function: FunctionType, copies: Mapping[int, Any]) -> bool:
    """Whether a function holds something, or a method of something, that was copied."""
    held = [cell.cell_contents for cell in function.__closure__ or () if cell != CellType()]
    owners = [getattr(each, "__self__", each) for each in held]
    return any(id(each) in copies for each in owners if isinstance(each, nn.Module)) or any(
        reaches(each, copies) for each in held if isinstance(each, FunctionType) and each is not function
    )


def mute_metrics(module: nn.Module) -> None:
    """Let metrics take in nothing, which may depend on values that stand-ins of tensors don't have."""
    for part in module.modules():
        if isinstance(part, (Metric, MetricCollection)):
            part.update = ignore
            part.forward = (lambda *_, **__: {}) if isinstance(part, MetricCollection) else (lambda *_, **__: zeros(()))


def backward(loss: Tensor, *arguments: Any, **options: Any) -> None:
    """Do what a LightningModule's `manual_backward` does, where a copy's step is to have its gradients."""
    loss.backward(*arguments, **options)


def replace_tensors(module: nn.Module, convert: Callable[[Tensor], Tensor]) -> None:
    """Replace what `module.to()` would move: parameters, shared ones by shared ones, buffers, states of metrics."""
    done: dict[int, nn.Parameter] = {}
    for part in module.modules():
        for name, parameter in part._parameters.items():
            if parameter is None or is_lazy(parameter):
                continue
            if id(parameter) not in done:
                done[id(parameter)] = nn.Parameter(convert(parameter.detach()), parameter.requires_grad)
            part._parameters[name] = done[id(parameter)]
        for name, buffer in part._buffers.items():
            if buffer is not None and not is_lazy(buffer):
                part._buffers[name] = convert(buffer)
        if isinstance(part, Metric):
            for holder in (part.__dict__, part._defaults):
                for name in part._defaults.keys() & holder.keys():  # a wrapper shows those of what it wraps
                    state = holder[name]
                    holder[name] = convert(state) if isinstance(state, Tensor) else [convert(each) for each in state]


@contextmanager
def put_in(copy: LightningModule, trainer: Trainer) -> Iterator[None]:
    """Let Lightning call the copy's hooks, and those of a copy of the DataModule, which may keep tensors too.

    Callbacks are copies, too: hooks may give them what belongs to the module.
    """
    selector = trainer._data_connector._datahook_selector
    datamodule = shallow_copy(selector.datamodule)
    with (
        patch.object(trainer.strategy, "_lightning_module", copy),
        patch.multiple(selector, model=copy, datamodule=datamodule),
        patch.object(trainer, "datamodule", datamodule, create=True),
        patch.object(trainer, "callbacks", [with_own_containers(each) for each in trainer.callbacks]),
    ):
        yield


def with_own_containers(callback: Any) -> Any:
    """Return a shallow copy that shares no list, dict or set."""
    own = shallow_copy(callback)
    containers = {name: each for name, each in vars(own).items() if isinstance(each, (list, dict, set))}
    vars(own).update({name: shallow_copy(each) for name, each in containers.items()})
    return own


class FirstBatches:
    """Keeps a copy of each stage's first batch as the DataLoader gave it, before it is moved to a device."""

    def __init__(self, trainer: Trainer) -> None:
        self.strategy = trainer.strategy
        self.raw: dict[str, Any] = {}
        self.trainer, self.transfer = trainer, self.strategy.batch_to_device
        self.strategy.batch_to_device = self.keep  # checkpoints of hyperparameters may hold the Trainer, with this

    def keep(self, batch: Any, *arguments: Any, **options: Any) -> Any:
        stage = str(self.trainer.state.stage.value)
        if stage not in self.raw:
            try:
                # Some subclasses of tensors refuse to be copied, and can be cloned.
                self.raw[stage] = deepcopy(batch, {id(each): each.detach().clone() for each in tensors(batch)})
            except Exception:  # of any kind: what a batch holds beside tensors need not be copied
                self.raw[stage] = as_loaded(batch)
        return self.transfer(batch, *arguments, **options)

    def remove(self) -> None:
        self.strategy.__dict__.pop("batch_to_device", None)
