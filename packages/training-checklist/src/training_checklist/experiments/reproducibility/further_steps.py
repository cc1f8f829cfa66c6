"""The training steps that follow a checkpoint, and the same steps once more in a run that is resumed from it."""

import copy
import inspect
from collections import deque
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy
from torchmetrics import Metric, MetricCollection

from training_checklist.engines.fingerprints import digest, named, rows_of
from training_checklist.engines.held import attributes
from training_checklist.engines.instead import put
from training_checklist.engines.own_code import is_own_class, pass_on
from training_checklist.engines.replay import loss_in
from training_checklist.lab.seeded_runs import EVAL_MODE, LEFT_OUT, FurtherStep
from training_checklist.lightning import LightningModule, Trainer, collect_rng_states, set_rng_states

LIGHTNINGS = set(vars(LightningModule()))
SIZED = (list, tuple, set, dict, deque)


class Recorder:
    """Records the training steps of a module until it is left.

    Args:
        given: batches and random states of another run, which the first steps get instead of their own, so that they
            can only differ by what a checkpoint does not bring back.

    Attributes:
        given: those of this run.
        obstacle: why a step could not be recorded, which ends the recording.
    """

    def __init__(self, trainer: Trainer, pl_module: LightningModule, given: Sequence[tuple[Any, Any]] = ()) -> None:
        self.trainer, self.module, self.others = trainer, pl_module, given
        self.given: list[tuple[Any, dict[str, Any]]] = []
        self.steps: list[FurtherStep] = []
        self.obstacle = ""
        self.over = False

    def __enter__(self) -> "Recorder":
        self.outer = self.module.__dict__.get("training_step")
        put(self.module, "training_step", recorded(self.module.training_step, self))
        self.inside = vars(self.module)["training_step"]
        return self

    def __exit__(self, *error: object) -> None:
        self.over = True  # whoever has wrapped this wrapper keeps it
        if self.module.__dict__.get("training_step") is self.inside:
            del self.module.__dict__["training_step"]
            if self.outer is not None:
                self.module.__dict__["training_step"] = self.outer

    def begin(self, batch: Any) -> Any:
        """Record what there is before a step, and return the batch that it gets."""
        if len(self.steps) < len(self.others):
            kept, random = self.others[len(self.steps)]
            batch = copy.deepcopy(kept)
            set_rng_states(random)
        try:
            self.given.append((copy.deepcopy(batch), collect_rng_states()))
        except Exception as error:  # of any kind: of batches that hold a graph, or what cannot be copied
            self.over, self.obstacle = True, f"a batch cannot be copied ({type(error).__name__}: {error})"
            return batch
        weights = named(self.module)
        self.steps.append(
            FurtherStep(
                [float(group["lr"]) for optimizer in self.trainer.optimizers for group in optimizer.param_groups],
                rows_of("parameter", len(self.steps), weights),
                plain_values(self.module),
                {name: tensor.stride() for name, tensor in weights.items() if has_strides(tensor)},
            )
        )
        return batch


def has_strides(tensor: Tensor) -> bool:
    return tensor.layout == torch.strided and not is_lazy(tensor)


def recorded(step: Any, recorder: Recorder) -> Any:
    def inside(batch: Any, *arguments: Any, **options: Any) -> Any:
        if not recorder.over:
            batch = recorder.begin(batch)
        result = pass_on(step, batch, *arguments, **options)
        if not recorder.over:
            loss = loss_in(result)
            recorder.steps[-1].loss = None if loss is None else float(loss.detach())
        return result

    return inside


def has_modes(module: nn.Module) -> bool:
    """Whether a module itself reads in which mode it is: most layers do the same in both."""
    own = [each for kind in type(module).__mro__ if is_own_class(kind) for each in vars(kind).values()]
    functions = filter(inspect.isfunction, (type(module).forward, *own))
    return any("training" in function.__code__.co_names for function in functions)


def plain_values(pl_module: LightningModule) -> dict[str, Any]:
    """Return numbers, texts and sizes of containers that modules keep; what metrics keep plays no part in training."""
    metrics = {path for path, module in pl_module.named_modules() if isinstance(module, (Metric, MetricCollection))}
    asleep = sum(not module.training and has_modes(module) for module in pl_module.modules())
    found: dict[str, Any] = {EVAL_MODE: asleep}
    for path, name, value in attributes(pl_module):
        where = f"{path or type(pl_module).__name__}.{name}"
        if path in metrics or name in LIGHTNINGS:
            continue
        if isinstance(value, bool | int | float | str | None):
            found[where] = value
        elif isinstance(value, Tensor):
            found[where] = float(value) if value.numel() == 1 else f"values with digest {digest(value)}"
        elif isinstance(value, SIZED):
            found[where] = f"{len(value)} items"
    kept = named(pl_module)
    left_out = (pair for pair in pl_module.named_buffers() if pair[0] not in kept)
    found |= {f"{LEFT_OUT} {name}": f"values with digest {digest(value)}" for name, value in left_out}
    return found
