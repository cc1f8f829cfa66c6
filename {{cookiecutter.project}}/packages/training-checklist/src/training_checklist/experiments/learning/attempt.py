"""A short training of a copy of the network, of which the run knows nothing."""

import copy
import inspect
import math
from collections.abc import Mapping
from typing import Any

import torch
from lightning_utilities.core.apply_func import apply_to_collection
from torch import Tensor

from training_checklist.engines.batches import tensors
from training_checklist.engines.observe import labels_of
from training_checklist.engines.replay import unwatched
from training_checklist.lightning import LightningModule, Trainer, isolate_rng

EXCHANGES = 8  # permutations of the labels that a loss is compared with


class Attempt:
    """A copy of the network and its optimizer, trained by hand on batches that are at hand.

    Args:
        rates: learning rate of each of the optimizer's groups.
    """

    def __init__(self, trainer: Trainer, pl_module: LightningModule, rates: list[float]) -> None:
        # In one call, so that the optimizer's copy holds the network's copy.
        with unwatched(pl_module):
            self.module, [self.optimizer] = copy.deepcopy((pl_module, trainer.optimizers), {id(trainer): trainer})
        self.module.trainer = trainer  # is left out by copying; the copy asks it for settings, and logs nothing
        self.module.log = self.module.log_dict = lambda *_, **__: None
        self.trainer, self.clips, self.step = trainer, bool(trainer.gradient_clip_val), 0
        for group, rate in zip(self.optimizer.param_groups, rates, strict=True):
            group["lr"] = rate

    def options(self, key: str) -> list[float]:
        """Return an option of every group of the optimizer."""
        return [float(group.get(key, 0)) for group in self.optimizer.param_groups]

    def change(self, key: str, factor: float) -> float:
        """Multiply a setting, by its key in the config; return what it was."""
        if key == "trainer.gradient_clip_val":
            self.clips = factor != 0
            return float(self.trainer.gradient_clip_val)
        option = {"optimizer.lr": "lr", "optimizer.weight_decay": "weight_decay"}[key]
        before = max(self.options(option))
        for group in self.optimizer.param_groups:
            group[option] = group[option] * factor
        return before

    def loss(self, batch: Any) -> Tensor:
        arguments = (batch, 0)[: len(inspect.signature(self.module.training_step).parameters)]
        with self.trainer.precision_plugin.train_step_context():
            output = self.module.training_step(*arguments)
        return output["loss"] if isinstance(output, Mapping) else output

    @torch.no_grad()
    def mean(self, batches: list[Any]) -> float:
        """Return the mean loss; in training mode, since running statistics lag behind in so short a training."""
        with isolate_rng():
            torch.manual_seed(0)  # the same dropout whatever is compared
            return sum(float(self.loss(batch)) for batch in batches) / len(batches)

    def train(self, batches: list[Any], steps: int) -> float:
        """Take some steps and return the share by which the loss on these batches has fallen since the first."""
        known = batches[:8]
        if self.step == 0:
            self.before = self.mean(known)
        for _ in range(steps):
            self._take_step(batches[self.step % len(batches)])
        self.after = self.mean(known)
        fall = (self.before - self.after) / max(abs(self.before), 1e-12)
        return fall if math.isfinite(fall) else -math.inf

    def _take_step(self, batch: Any) -> None:
        loss = self.loss(batch)
        self.optimizer.zero_grad()
        loss.backward()
        if self.step == 0:
            gradients = [each.grad.norm() for each in self.module.parameters() if each.grad is not None]
            self.norm = float(torch.stack(gradients).norm())
        if self.clips:
            clip = self.trainer.gradient_clip_val, self.trainer.gradient_clip_algorithm
            self.module.configure_gradient_clipping(self.optimizer, *clip)
        self.optimizer.step()
        self.step += 1

    def effect_of_labels(self, batches: list[Any]) -> tuple[float, float]:
        """Return by how much exchanged labels raise the loss: in its own units, and in deviations of such exchanges."""
        right = self.mean(batches)
        generator = torch.Generator().manual_seed(0)
        wrong = torch.tensor([self.mean([exchanged(each, generator) for each in batches]) for _ in range(EXCHANGES)])
        raised = float(wrong.mean()) - right
        return raised, raised / max(float(wrong.std()), 1e-9)


def target_of(batch: Any) -> Tensor | None:
    """Return what is to be predicted, as far as a batch tells: class indices, or else its last tensor."""
    found = list(tensors(batch))
    labels = labels_of(batch)
    return found[-1] if labels is None and len(found) > 1 and len(found[-1]) == len(found[0]) else labels


def exchanged(batch: Any, generator: torch.Generator) -> Any:
    """Return a batch whose targets belong to other samples."""
    target = target_of(batch)
    order = torch.randperm(len(target), generator=generator).to(target.device)
    return apply_to_collection(batch, Tensor, lambda tensor: tensor[order] if tensor is target else tensor)
