"""Whether the weights of a checkpoint are all that a trained network answers with."""

import time
from typing import Any

import torch
from torch import Tensor
from torchmetrics import Metric

from training_checklist.engines.fingerprints import digest, named
from training_checklist.engines.held import attributes
from training_checklist.engines.logged import logged_by
from training_checklist.engines.splits import splits
from training_checklist.engines.stand_in import stand_in
from training_checklist.evidence.repetition import RestoredAnswers
from training_checklist.lightning import LightningModule, Trainer, isolate_rng

SAMPLES = 16


def restored_answers(
    untrained: LightningModule, trainer: Trainer, pl_module: LightningModule
) -> RestoredAnswers | None:
    """Give a copy from before training what a checkpoint would bring back, and validate both with the same samples.

    None where that cannot be compared.
    """
    split = next(iter(splits("val", trainer.val_dataloaders)), None)
    if split is None or not split.indexable:
        return None
    [(_, batch)] = split.fetch(split.chosen(SAMPLES), trainer, time.monotonic(), SAMPLES)
    trained = stand_in(pl_module, trainer)
    checkpoint: dict[str, Any] = {"state_dict": trained.state_dict()}
    with isolate_rng():
        trained.on_save_checkpoint(checkpoint)
        untrained.on_load_checkpoint(checkpoint)
        untrained.load_state_dict(checkpoint["state_dict"])
        for hook in ("on_validation_start", "on_test_start"):  # what these set, needs not be saved
            getattr(untrained, hook)()
    one, two = (logged_by(module.eval(), "val", batch)[0] for module in (trained, untrained))
    again, _ = logged_by(trained, "val", batch)
    if one != again or one.keys() != two.keys():
        return None
    kept, before = tensors_beside(trained), tensors_beside(untrained)
    lost = sorted(name for name, value in kept.items() if before.get(name) != value)
    return RestoredAnswers(one, two, lost)


def tensors_beside(pl_module: LightningModule) -> dict[str, str]:
    """Return digests of the tensors that modules keep and state_dict() leaves out."""
    saved = named(pl_module)
    found = {name: digest(buffer) for name, buffer in pl_module.named_buffers() if name not in saved}
    metrics = {path for path, module in pl_module.named_modules() if isinstance(module, Metric)}
    for path, name, value in attributes(pl_module):
        if isinstance(value, Tensor) and not isinstance(value, torch.nn.Parameter) and path not in metrics:
            found[f"{path}.{name}".lstrip(".")] = digest(value)
    return found
