"""Analytical against numerical gradients: of the criterion, and of every autograd.Function that the project defines."""

from collections.abc import Sequence
from typing import Any

from training_checklist.engines.lazy import has_lazy
from training_checklist.experiments.experiment import Experiment
from training_checklist.lab.numerical_slopes import CheckedStep
from training_checklist.lightning import LightningModule, Trainer


class Gradcheck(Experiment):
    """Compares the gradient of the criterion, and of each autograd.Function, with the slope of its forward pass.

    Not judged, because meant: detached parts, functions that only change the gradient (forward is the identity, as in
    gradient reversal), and those whose slope is 0 everywhere (rounding with a straight-through gradient).

    Args:
        options: how, as CheckedStep has it.
    """

    item = "gradcheck"

    def __init__(self, topics: Sequence[str], **options: Any) -> None:
        super().__init__(topics)
        self.options, self.done = options, False

    def on_train_batch_start(self, trainer: Trainer, pl_module: LightningModule, batch: Any, batch_idx: int) -> None:
        if not has_lazy(pl_module):
            self._compare(pl_module, batch)

    def on_train_batch_end(
        self, trainer: Trainer, pl_module: LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        self._compare(pl_module, batch)  # where lazy layers had to wait for their first batch

    def _compare(self, pl_module: LightningModule, batch: Any) -> None:
        if self.done:
            return
        self.done = True
        if not pl_module.automatic_optimization:
            self.skip("training_step optimises itself, so that it cannot be repeated")
            return
        step = CheckedStep(pl_module, batch, **self.options)
        self.ask(self.probes, step)
        self.seen = "; ".join(step.said)
