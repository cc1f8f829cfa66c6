"""One step of every stage on an accelerator that this machine need not have."""

from collections.abc import Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any
from unittest.mock import patch

import torch

from training_checklist.engines.compared import in_full_precision
from training_checklist.engines.lazy import has_lazy
from training_checklist.engines.replay import call_step
from training_checklist.engines.stages import PARTS, first_batch, has_stage
from training_checklist.engines.stand_in import FirstBatches, backward, put_in, replace_tensors, stand_in
from training_checklist.experiments.experiment import Experiment
from training_checklist.lab.accelerator import FAR, Accelerator, AcceleratorStep, Far, Mix, Origin, keeping, pretended
from training_checklist.lightning import LightningModule, RunningStage, Trainer, isolate_rng
from training_checklist.probe import CannotJudge

# What runs before a step, where tensors may be moved.
HOOKS = {
    "training_step": ("on_fit_start", "on_train_start", "on_train_epoch_start"),
    "validation_step": ("on_fit_start", "on_train_start", "on_validation_epoch_start"),
    "test_step": ("on_test_start", "on_test_epoch_start"),
    "predict_step": ("on_predict_start", "on_predict_epoch_start"),
}
AFTER_FIT = {"test": RunningStage.TESTING, "predict": RunningStage.PREDICTING}


class Device(Experiment):
    """Goes through the hooks that run before a step, the transfer of a batch, and a step, all on copies."""

    item = "device"

    def __init__(self, topics: Sequence[str] = ()) -> None:
        super().__init__(topics)
        self.batches: FirstBatches | None = None
        self.operations: dict[str, int] = {}
        self.unclear: dict[str, str] = {}  # why a step was not gone through to its end
        self.told: set[Any] = set()
        self.kept: set[tuple[str, str]] = set()  # attributes with tensors that were there before any step

    def on_fit_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self.batches, self.kept = FirstBatches(trainer), keeping(pl_module)

    def on_train_batch_start(self, trainer: Trainer, pl_module: LightningModule, batch: Any, batch_idx: int) -> None:
        if not has_lazy(pl_module):
            self._examine(trainer, pl_module, "training_step", self.batches.raw.get("train"))

    def on_train_batch_end(
        self, trainer: Trainer, pl_module: LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:  # where lazy layers had to wait for their first batch
        self._examine(trainer, pl_module, "training_step", self.batches.raw.get("train"))

    def on_validation_batch_start(
        self, trainer: Trainer, pl_module: LightningModule, batch: Any, batch_idx: int, dataloader_idx: int = 0
    ) -> None:
        if self.batches is not None:  # else the script validates before it trains
            self._examine(trainer, pl_module, "validation_step", self.batches.raw.get("validate"))

    def on_fit_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self.batches.remove()
        for stage, running in AFTER_FIT.items():
            if has_stage(stage, pl_module, trainer.datamodule):
                step = PARTS[stage][0]
                with ExitStack() as stack:
                    try:
                        raw = stack.enter_context(first_batch(trainer, pl_module, stage))
                    except Exception as error:  # that stage itself will raise it
                        self.unclear[step] = f"{step} has no batch here: {told(error)}"
                        continue
                    stack.enter_context(patch.object(trainer.state, "stage", running))
                    self._examine(trainer, pl_module, step, raw)

    def on_exception(self, trainer: Trainer, pl_module: LightningModule, exception: BaseException) -> None:
        if self.batches is not None:
            self.batches.remove()

    def conclude(self, folder: Path) -> None:
        ran = ", ".join(f"{step} ({count} operations)" for step, count in self.operations.items() if count)
        self.seen = "; ".join([f"on a pretended {FAR}: {ran}"] * bool(ran) + list(self.unclear.values()))
        if not self.findings and not self.operations.get("training_step"):
            self.skip(f"inconclusive: {'; '.join(self.unclear.values()) or 'no step has run'}")

    def _examine(self, trainer: Trainer, pl_module: LightningModule, step: str, raw: Any) -> None:
        if step in self.operations or raw is None:
            return
        self.operations[step], mixes, places = 0, [], None
        try:
            copy = stand_in(pl_module, trainer)
            copy.manual_backward = backward
            accelerator = Accelerator(copy, self.told, self.kept)
            mixes, places = accelerator.mixes, accelerator.places
            with isolate_rng(), put_in(copy, trainer), accelerator, pretended(trainer):
                run_step(trainer, copy, step, raw, accelerator)
            self.operations[step] = accelerator.operations
        except Exception as error:  # the real step will say so if it is the project's own
            if places is not None and "same device" in str(
                error
            ):  # some of torch's own modules look before any operation does
                mixes.append(Mix("", Origin("torch", line_of(error)), places.of_error(error)))
            else:
                self.unclear[step] = f"{step} ended early with {told(error)}"
        if mixes or self.operations[step]:
            self.ask(self.probes, AcceleratorStep(mixes))


def line_of(error: Exception) -> str:
    return str(error).strip().partition("\n")[0]


def told(error: Exception) -> str:
    said = line_of(error)[:120]
    return said if isinstance(error, CannotJudge) else f"{type(error).__name__}: {said}"


def run_step(trainer: Trainer, copy: LightningModule, step: str, raw: Any, accelerator: Accelerator) -> None:
    """Do what Lightning does from the transfer of a batch to the loss."""
    replace_tensors(copy, Far)
    for part in copy.modules():
        if "_device" in vars(part):
            part._device = FAR
    accelerator.register(copy)
    accelerator.register_datamodule(trainer.datamodule)
    training, name = step == "training_step", {"training_step": "train"}.get(step, step.removesuffix("_step"))
    if not training:
        copy.eval()
    for hook in HOOKS[step]:  # may move what a module keeps in attributes
        getattr(copy, hook)()
    batch = in_full_precision(trainer.precision_plugin.convert_input(raw), copy)
    batch = copy._apply_batch_transfer_handler(batch, device=FAR, dataloader_idx=0)
    accelerator.register_batch(batch)
    with trainer.precision_plugin.forward_context(), torch.set_grad_enabled(training):
        getattr(copy, f"on_{name}_batch_start")(batch, 0)
        output = call_step(copy, step, batch)
        with suppress(Exception):  # they may want what a step has not left behind here
            getattr(copy, f"on_{name}_batch_end")(output, batch, 0)
            getattr(copy, f"on_{name}_epoch_end")()
