"""One step of every stage on an accelerator that this machine need not have."""

from contextlib import suppress
from typing import Any
from unittest.mock import patch

import torch

from training_checklist.diagnosis.crash import Crash
from training_checklist.engines.stand_in import FirstBatches, put_in, replace_tensors, stand_in
from training_checklist.experiments.device.accelerator import FAR, Accelerator, Far, pretended
from training_checklist.experiments.experiment import Experiment, NoWorkers
from training_checklist.experiments.fast_dev_run import has_stage
from training_checklist.lightning import CombinedLoader, LightningModule, RunningStage, Trainer, isolate_rng

# What runs before a step, where tensors may be moved.
HOOKS = {
    "training_step": ("on_fit_start", "on_train_start", "on_train_epoch_start"),
    "validation_step": ("on_fit_start", "on_train_start", "on_validation_epoch_start"),
    "test_step": ("on_test_start", "on_test_epoch_start"),
    "predict_step": ("on_predict_start", "on_predict_epoch_start"),
}
AFTER_FIT = {"test_step": ("test", RunningStage.TESTING), "predict_step": ("predict", RunningStage.PREDICTING)}


class Device(Experiment):
    """Fails where a step would meet tensors of two devices: names the tensor's origin, the module, operation and line.

    It goes through the hooks that run before a step, the transfer of a batch, and a step on a copy of the module.
    """

    item = "device"

    def on_fit_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self.batches = FirstBatches(trainer)
        self.operations: dict[str, int] = {}
        self.unclear: list[str] = []

    def on_train_batch_start(self, trainer: Trainer, pl_module: LightningModule, batch: Any, batch_idx: int) -> None:
        self._examine(trainer, pl_module, "training_step", self.batches.raw.get("train"))

    def on_validation_batch_start(
        self, trainer: Trainer, pl_module: LightningModule, batch: Any, batch_idx: int, dataloader_idx: int = 0
    ) -> None:
        self._examine(trainer, pl_module, "validation_step", self.batches.raw.get("validate"))

    def on_fit_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self.batches.remove()
        for step, (stage, running) in AFTER_FIT.items():
            if has_stage(stage, pl_module, trainer.datamodule):
                with patch.object(trainer.state, "stage", running), suppress(Exception):  # that stage itself will raise
                    self._examine(trainer, pl_module, step, first_batch(trainer, pl_module, stage))
        ran = ", ".join(f"{step} ({count} operations)" for step, count in self.operations.items() if count)
        self.seen = "; ".join(part for part in (f"on a pretended {FAR}: {ran}" if ran else "", *self.unclear) if part)
        if (self.unclear or not ran) and not self.findings:
            self.skip(f"inconclusive: {'; '.join(self.unclear) or 'no step has run'}")

    def on_exception(self, trainer: Trainer, pl_module: LightningModule, exception: BaseException) -> None:
        self.batches.remove()

    def _examine(self, trainer: Trainer, pl_module: LightningModule, step: str, raw: Any) -> None:
        if step in self.operations or raw is None:
            return
        self.operations[step] = 0
        try:
            copy = stand_in(pl_module, trainer)
            accelerator = Accelerator(copy, self._add)
            with isolate_rng(), put_in(copy, trainer), accelerator, pretended(trainer):
                run_step(trainer, copy, step, raw, accelerator)
            self.operations[step] = accelerator.operations
        except Exception as error:  # the real step will say so if it is the project's own
            if "same device" in str(error):  # some of torch's own modules look before any operation does
                self._add_mismatch(error)
                return
            line = str(error).strip().partition("\n")[0][:120]
            self.unclear.append(f"{step} ended early with {type(error).__name__}: {line}")

    def _add_mismatch(self, error: Exception) -> None:
        self.fail(
            str(error).strip().partition("\n")[0],
            str(Crash(error).place),
            "on an accelerator this step ends with this error; the CPU never shows it",
            "make the tensor where the others are: device=x.device, x being an input of the module",
        )


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
    batch = copy._apply_batch_transfer_handler(raw, device=FAR, dataloader_idx=0)
    accelerator.register_batch(batch)
    with trainer.precision_plugin.forward_context(), torch.set_grad_enabled(training):
        getattr(copy, f"on_{name}_batch_start")(batch, 0)
        output = getattr(copy, step)(batch, 0)
        with suppress(Exception):  # they may want what a step has not left behind here
            getattr(copy, f"on_{name}_batch_end")(output, batch, 0)
            getattr(copy, f"on_{name}_epoch_end")()


def first_batch(trainer: Trainer, pl_module: LightningModule, stage: str) -> Any:
    """Return the first batch that a stage after training would get, as its loader gives it."""
    source = pl_module if trainer.datamodule is None else trainer.datamodule
    with isolate_rng(), NoWorkers():
        source.setup(stage)
        batch, _, _ = next(iter(CombinedLoader(getattr(source, f"{stage}_dataloader")(), "sequential")))
    return batch
