"""One step of training and of validation on an accelerator that this machine need not have."""

from contextlib import suppress
from typing import Any

import torch
from pytorch_lightning import LightningModule, Trainer
from pytorch_lightning.utilities.seed import isolate_rng

from ..check import Check
from ..diagnosis.place import Place
from ..stand_in import FirstBatches, put_in, replace_tensors, stand_in
from .accelerator import FAR, Accelerator, Far, pretended

HOOKS = ("on_fit_start", "on_train_start", "on_train_epoch_start", "on_validation_epoch_start")


class Device(Check):
    """Fails where a step would meet tensors of two devices: names the tensor's origin, the module, operation and line.

    It goes through the hooks that run before a step, the transfer of a batch, and a step on a copy of the module.
    """

    item = "device"

    def on_fit_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self.batches = FirstBatches(trainer)
        self.operations: dict[str, int] = {}
        self.unclear: list[str] = []

    def on_train_batch_start(self, trainer: Trainer, pl_module: LightningModule, batch: Any, batch_idx: int) -> None:
        self._examine(trainer, pl_module, "training_step", "train")

    def on_validation_batch_start(
        self, trainer: Trainer, pl_module: LightningModule, batch: Any, batch_idx: int, dataloader_idx: int = 0
    ) -> None:
        self._examine(trainer, pl_module, "validation_step", "validate")

    def on_fit_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self.batches.remove()
        ran = ", ".join(f"{step} ({count} operations)" for step, count in self.operations.items() if count)
        self.seen = "; ".join(part for part in (f"on a pretended {FAR}: {ran}" if ran else "", *self.unclear) if part)
        if (self.unclear or not ran) and not self.findings:
            self.skip(f"inconclusive: {'; '.join(self.unclear) or 'no step has run'}")

    def on_exception(self, trainer: Trainer, pl_module: LightningModule, exception: BaseException) -> None:
        self.batches.remove()

    def _examine(self, trainer: Trainer, pl_module: LightningModule, step: str, stage: str) -> None:
        if step in self.operations or stage not in self.batches.raw:
            return
        self.operations[step] = 0
        try:
            copy = stand_in(pl_module, trainer)
            accelerator = Accelerator(copy, self._add)
            with isolate_rng(), put_in(copy, trainer), accelerator, pretended(trainer):
                run_step(trainer, copy, step, self.batches.raw[stage], accelerator)
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
            str(Place(error)),
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
    training = step == "training_step"
    for hook in HOOKS[:3] if training else HOOKS[:2] + HOOKS[3:]:  # may move what a module keeps in attributes
        getattr(copy, hook)()
    batch = copy._apply_batch_transfer_handler(raw, device=FAR, dataloader_idx=0)
    accelerator.register_batch(batch)
    with trainer.precision_plugin.forward_context(), torch.set_grad_enabled(training):
        getattr(copy, "on_train_batch_start" if training else "on_validation_batch_start")(batch, 0)
        output = getattr(copy, step)(batch, 0)
        with suppress(Exception):  # they may want what a step has not left behind here
            getattr(copy, "on_train_batch_end" if training else "on_validation_batch_end")(output, batch, 0)
            getattr(copy, "on_train_epoch_end" if training else "on_validation_epoch_end")()
