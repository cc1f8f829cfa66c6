"""What a step takes of an accelerator's memory, predicted without one: its tensors have shapes and no values."""

import weakref
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from copy import copy as shallow_copy
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.fx.experimental.symbolic_shapes import ShapeEnv
from torch.optim import Optimizer
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torch.utils.checkpoint import checkpoint

from training_checklist.engines.batches import mapped, tensors
from training_checklist.engines.lazy import initialized
from training_checklist.engines.replay import call_step
from training_checklist.engines.stand_in import mute_metrics, put_in, replace_tensors, stand_in
from training_checklist.engines.uncopied import after_forward, before_forward
from training_checklist.lightning import LightningModule, Trainer, isolate_rng

BLOCK = 512  # bytes; CUDA's allocator rounds up to multiples of it
PARAMETERS, GRADIENTS, ACTIVATIONS = "parameters", "gradients", "activations"
OPTIMIZER, BATCH, TEMPORARIES = "optimizer state", "batch", "temporaries"
OF_PARAMETERS = (PARAMETERS, GRADIENTS, OPTIMIZER)  # parts of the peak that parameters bring along


@dataclass(frozen=True)
class Peak:
    """What is in memory when it is fullest.

    Attributes:
        parts: bytes of each kind.
        modules: bytes of the activations by the path of the module that made them, "" where none did.
        stages: most bytes during each stage of a step.
    """

    parts: dict[str, int]
    modules: dict[str, int]
    stages: dict[str, int]

    @property
    def bytes(self) -> int:
        return sum(self.parts.values())

    def largest_module(self, share: float = 0.6) -> str:
        """Return the innermost module within which more than `share` of the activations are made."""
        within: Counter[str] = Counter()
        for path, size in self.modules.items():
            names = path.split(".") if path else []
            within.update({".".join(names[:depth]): size for depth in range(1, len(names) + 1)})
        enough = [path for path, size in within.items() if size > share * sum(self.modules.values())]
        return max(enough, key=lambda path: path.count("."), default="")


class Tally(TorchDispatchMode):
    """Counts the bytes of every storage that lives, by its kind and by the module that made it."""

    def __init__(self) -> None:
        super().__init__()
        self.kind, self.path = BATCH, ""
        self.storages: dict[int, tuple[weakref.ref, int, tuple[str, str]]] = {}
        self.live: Counter[tuple[str, str]] = Counter()
        self.total = self.most = 0
        self.fullest: Counter[tuple[str, str]] = Counter()
        self.stages: dict[str, int] = {}

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = function(*args, **(kwargs or {}))
        for tensor in tree_leaves(result):
            if isinstance(tensor, Tensor):
                self.add(tensor, self.kind)
        return result

    def add(self, tensor: Tensor, kind: str, again: bool = False) -> None:
        """Count a tensor's storage as of a kind; `again` moves one that is counted already."""
        storage = tensor.untyped_storage()
        known = self.storages.get(id(storage))
        if known is not None and not again:
            return
        if known is not None:
            self._drop(id(storage), None)
        size = -(-int(storage.nbytes()) // BLOCK) * BLOCK  # no number where it depends on values: that raises
        key = kind, self.path if kind == ACTIVATIONS else ""
        self.storages[id(storage)] = weakref.ref(storage, partial(self._drop, id(storage))), size, key
        self.live[key] += size
        self.total += size
        if self.total > self.most:
            self.most, self.fullest = self.total, self.live.copy()

    @contextmanager
    def stage(self, name: str, kind: str) -> Iterator[None]:
        """Count what is made meanwhile as of a kind, and note the stage's own peak."""
        before, self.kind, self.most = (self.most, self.fullest), kind, self.total
        self.fullest = self.live.copy()
        yield
        self.stages[name] = self.most
        if before[0] > self.most:
            self.most, self.fullest = before

    def enter(self, path: str, module: nn.Module, inputs: Any) -> None:
        module._tally_outer, self.path = self.path, path

    def leave(self, module: nn.Module, inputs: Any, output: Any) -> None:
        self.path = module._tally_outer

    def _drop(self, key: int, reference: Any) -> None:
        _, size, kind = self.storages.pop(key, (None, 0, ("", "")))
        self.live[kind] -= size
        self.total -= size


def predict(
    pl_module: LightningModule,
    trainer: Trainer,
    raw: Any,
    step: str = "training_step",
    times: int = 1,
    precision: torch.dtype | None = None,
    recomputed: tuple[str, ...] = (),
) -> Peak:
    """Return the peak of a step once the optimizer has its state.

    Args:
        raw: batch as the DataLoader gave it.
        times: how many times as many samples to assume.
        precision: of autocast, where it is not to be the Trainer's own.
        recomputed: modules whose activations are not kept for backward.

    Raises:
        Exception: of any kind, where a step depends on values or uses what has no stand-in.
    """
    with isolate_rng(), torch.autograd.set_detect_anomaly(False):  # which would ask for values
        copy = stand_in(pl_module, trainer)
        mute_metrics(copy)
        for path in recomputed:
            module = copy.get_submodule(path)
            module.forward = partial(
                checkpoint, module.forward, use_reentrant=False, preserve_rng_state=False, determinism_check="none"
            )
        fake, tally = FakeTensorMode(allow_non_fake_inputs=True, shape_env=ShapeEnv(), static_shapes=True), Tally()
        for path, module in copy.named_modules():
            before_forward(module, partial(tally.enter, path), prepend=True)
            after_forward(module, tally.leave)
        autocast = trainer.precision_plugin.forward_context
        if precision is not None:
            autocast = partial(torch.autocast, "cpu", precision)
        with put_in(copy, trainer), fake, tally:
            replace_tensors(copy, partial(without_values, fake))
            for tensor in initialized((*copy.parameters(), *copy.buffers())):
                tally.add(tensor, PARAMETERS, again=True)
            optimizers = [clone(each, pl_module, copy) for each in trainer.optimizers]
            for parameter in initialized(copy.parameters()):
                if parameter.requires_grad:
                    parameter.register_post_accumulate_grad_hook(lambda each: tally.add(each.grad, GRADIENTS, True))
            run = train if step == "training_step" else evaluate
            for _ in range(2):  # the first makes gradients and the optimizer's state, which are there at the second
                tally.most, tally.kind = 0, BATCH
                batch = mapped(raw, partial(stand_in_batch, fake, samples_of(raw), times))
                batch = copy._apply_batch_transfer_handler(batch, device=torch.device("cpu"), dataloader_idx=0)
                run(copy, step, batch, tally, optimizers, autocast)
    parts, modules = Counter(), Counter()
    for (kind, path), size in tally.fullest.items():
        parts[kind] += size
        if kind == ACTIVATIONS:
            modules[path] += size
    return Peak(dict(+parts), dict(+modules), tally.stages)


def train(
    copy: LightningModule, step: str, batch: Any, tally: Tally, optimizers: list[Optimizer], autocast: Callable
) -> None:
    """Do one step in Lightning's order: gradients of the last one are there until forward has ended."""
    with tally.stage("forward", ACTIVATIONS), autocast():
        output = call_step(copy, step, batch)
        loss = output["loss"] if isinstance(output, dict) else output
        del output
    for optimizer in optimizers:
        optimizer.zero_grad()
    with tally.stage("backward", TEMPORARIES):
        loss.backward()
        del loss
    with tally.stage("optimizer", TEMPORARIES):
        for optimizer in optimizers:
            optimizer.step()
            for tensor in tensors(list(optimizer.state.values())):
                tally.add(tensor, OPTIMIZER, again=True)


def evaluate(
    copy: LightningModule, step: str, batch: Any, tally: Tally, optimizers: list[Optimizer], autocast: Callable
) -> None:
    with tally.stage("validation", ACTIVATIONS), torch.no_grad(), autocast():
        call_step(copy.eval(), step, batch)


def clone(optimizer: Any, pl_module: LightningModule, copy: LightningModule) -> Optimizer:
    """Return an optimizer of the same kind without state, for the copy's parameters."""
    twins = {id(own): twin for own, twin in zip(pl_module.parameters(), copy.parameters(), strict=True)}
    twin = shallow_copy(getattr(optimizer, "optimizer", optimizer))
    vars(twin).pop("step", None)  # a schedule has wrapped that of the original
    twin.state = defaultdict(dict)
    twin.param_groups = [
        group | {"params": [twins[id(parameter)] for parameter in group["params"] if id(parameter) in twins]}
        for group in optimizer.param_groups
    ]
    for group in twin.param_groups:
        if group.get("foreach", 0) is None and not group.get("fused"):
            group["foreach"] = True  # what optimizers choose on an accelerator; it takes more memory
    return twin


def samples_of(raw: Any) -> int:
    """Return how many samples a batch has, or 0."""
    return next((len(tensor) for tensor in tensors(raw) if tensor.ndim), 0)


def without_values(fake: FakeTensorMode, tensor: Tensor) -> Tensor:
    """Return the stand-in of a tensor on the CPU, as all of a prediction lies there, wherever the tensor does."""
    tensor = tensor if tensor.device.type == "cpu" else torch.empty_like(tensor, device="cpu")
    return tensor if isinstance(tensor, FakeTensor) else fake.from_tensor(tensor, static_shapes=True)


def stand_in_batch(fake: FakeTensorMode, size: int, times: int, tensor: Tensor) -> Tensor:
    if times != 1 and tensor.ndim and len(tensor) == size:
        return torch.empty((size * times, *tensor.shape[1:]), dtype=tensor.dtype)
    return torch.empty_like(tensor, device="cpu")
