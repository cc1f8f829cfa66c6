"""Backward passes that make NaN or Inf, with the operation of the forward pass that is to blame."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from training_checklist.engines.around_step import around_step
from training_checklist.engines.not_finite import NotFinite, finite
from training_checklist.engines.replay import call_step, loss_in
from training_checklist.engines.stand_in import stand_in
from training_checklist.engines.tracer import Tracer
from training_checklist.experiments.experiment import Experiment
from training_checklist.finding import Finding
from training_checklist.lab.numerics import BackwardPasses, Numbers
from training_checklist.lightning import LightningModule, Trainer


class Anomaly(Experiment):
    """Watches every operation of the training steps and its backward.

    Autograd's own anomaly mode ends a run at any NaN, even one that reaches no weight; it is asked where the watch
    knows no operation behind a gradient that is not finite, as in a function written in C++.
    """

    item = "anomaly"

    def __init__(self, topics: Sequence[str] = ()) -> None:
        super().__init__(topics)
        self.numbers = Numbers()
        self.watch = NotFinite()
        self.steps = 0
        self.loss = 0.0
        self.is_spoilt = False  # whether weights are no numbers from here on: what comes after that follows from it
        self.batch: Any = None
        self.returned: Tensor | None = None  # by the step: Lightning goes on with this loss by a factor

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        torch.autograd.set_detect_anomaly(True, check_nan=False)  # until Lightning ends the mode
        self.watching.enter_context(around_step(pl_module, Tracer(pl_module, self.watch), tell=self._keep))

    def on_train_batch_start(self, trainer: Trainer, pl_module: LightningModule, batch: Any, batch_idx: int) -> None:
        self.watch.clear()
        self.returned, self.batch = None, batch

    def _keep(self, result: Any) -> None:
        self.returned = loss_in(result)

    def on_before_backward(self, trainer: Trainer, pl_module: LightningModule, loss: Tensor) -> None:
        self.loss = float(loss.detach().sum())
        if not torch.isfinite(loss).all() and not self.is_spoilt:
            self.is_spoilt = True
            forward = self.watch.behind(loss, self.returned)
            self.ask(self.probes, self.numbers, backward=BackwardPasses(self.steps, loss=self.loss, forward=forward))

    def on_after_backward(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self.steps += 1
        reaches = not finite(weight.grad for weight in pl_module.parameters())
        if self.watch.backward is not None:
            self._judge_backward(reaches)
        elif reaches and not self.is_spoilt and not self.findings and pl_module.automatic_optimization:
            with torch.autograd.set_detect_anomaly(True):
                loss_in(call_step(stand_in(pl_module, trainer), "training_step", self.batch)).sum().backward()
        self.seen = f"{self.steps} backward passes" + ", all finite" * (not self.findings)

    def on_train_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self.watching.close()
        self.watch.clear()  # it holds the graph of a step
        self.returned = self.batch = None
        if self.steps and not self.findings:
            self.ask(self.probes, self.numbers, backward=BackwardPasses(self.steps, loss=self.loss))

    def explain(self, error: Exception) -> Finding | None:
        """Return what autograd's own anomaly mode has made an exception of."""
        if not self.has_raised(error):
            return None
        if not self.findings and self.watch.backward is not None:
            self._judge_backward(reaches=True)
        return self.findings[0] if self.findings else None

    def has_raised(self, error: BaseException) -> bool:
        return "returned nan values" in str(error)  # of autograd's anomaly mode; it has no class

    def _judge_backward(self, reaches: bool) -> None:
        is_first = reaches and not self.is_spoilt  # beside one that reached no weight, too
        self.is_spoilt |= reaches
        if is_first or not self.findings:
            passes = BackwardPasses(self.steps, self.watch.backward, self.loss, reaches)
            self.ask(self.probes, self.numbers, backward=passes)
