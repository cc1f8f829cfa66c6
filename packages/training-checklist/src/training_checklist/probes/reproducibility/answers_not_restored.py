import time
from math import isclose
from typing import Any

import torch
from torch import Tensor
from torchmetrics import Metric

from training_checklist.instruments import (
    LightningModule,
    SeededRuns,
    Small,
    attributes,
    digest,
    isolate_rng,
    logged_by,
    named,
    of_the_project,
    splits,
    stand_in,
)
from training_checklist.probe import CannotJudge, Fix, Hit, Hits, Limits, Place, Probe, Threshold

SAMPLES = 16
BEFORE = ("on_validation_start", "on_validation_epoch_start", "on_test_start")


def detect(seeded: SeededRuns, limits: Limits) -> Hits:
    with of_the_project("validation, of a copy with the saved weights,"):
        trained, restored, lost = answers(seeded)
    # Weights of classes and the like, which a loss alone needs, are of training.
    both = {name: (value, restored[name]) for name, value in trained.items() if "loss" not in name}
    moved = [name for name, pair in both.items() if not isclose(*pair, rel_tol=limits.max_rounding)]
    if moved and not lost:
        raise CannotJudge("the step also depends on numbers that are no tensors, which may be of training alone")
    if moved:
        name = moved[0]
        yield Hit(
            f"{name} of some samples is {trained[name]:.5g} after training, and {restored[name]:.5g} of a network that "
            f"is built anew and given the saved weights: {', '.join(lost[:4])} is not saved",
            Place(note=", ".join(lost)),
        )


def answers(seeded: SeededRuns) -> tuple[dict[str, float], dict[str, float], list[str]]:
    """Give a copy from before training what a checkpoint would bring back, and validate both with the same samples.

    Returns:
        What either logs, and the names of tensors beside the saved ones that the copy does not have.
    """
    trainer, untrained = seeded.trainer, seeded.untrained
    split = next(iter(splits("val", trainer.val_dataloaders)), None)
    if untrained is None or trainer.world_size > 1 or split is None or not split.indexable:
        raise CannotJudge("there is no copy from before training, or no sample of validation to give it")
    [(_, batch)] = split.fetch(split.chosen(SAMPLES), trainer, time.monotonic(), SAMPLES)
    trained = stand_in(trainer.lightning_module, trainer)
    checkpoint: dict[str, Any] = {"state_dict": trained.state_dict()}
    with isolate_rng():
        trained.on_save_checkpoint(checkpoint)
        untrained.on_load_checkpoint(checkpoint)
        untrained.load_state_dict(checkpoint["state_dict"])
        for hook in BEFORE:  # what these set, needs not be saved
            for each in (trained, untrained):
                getattr(each, hook)()
    one, two = (logged_by(module.eval(), "val", batch)[0] for module in (trained, untrained))
    again, _ = logged_by(trained, "val", batch)
    if one != again or one.keys() != two.keys():
        raise CannotJudge("validation logs something else of the same samples each time")
    kept, before = tensors_beside(trained), tensors_beside(untrained)
    return one, two, sorted(name for name, value in kept.items() if before.get(name) != value)


def tensors_beside(pl_module: LightningModule) -> dict[str, str]:
    """Return digests of the tensors that modules keep and state_dict() leaves out."""
    saved = named(pl_module)
    found = {name: digest(buffer) for name, buffer in pl_module.named_buffers() if name not in saved}
    metrics = {path for path, module in pl_module.named_modules() if isinstance(module, Metric)}
    for path, name, value in attributes(pl_module):
        if isinstance(value, Tensor) and not isinstance(value, torch.nn.Parameter) and path not in metrics:
            found[f"{path}.{name}".lstrip(".")] = digest(value)
    return found


class Scaled(Small):
    """Sets a buffer when training begins, and validates with it."""

    scale, persistent = 9.0, False

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("factor", torch.ones((), dtype=torch.float64), persistent=self.persistent)

    def on_fit_start(self) -> None:
        self.factor.fill_(self.scale)

    def validation_step(self, batch: list, batch_idx: int) -> None:
        self.log("val/largest", self.factor)


class Neighbours(Scaled):
    """Makes a bank of features anew before each validation, by the weights that it has then."""

    def on_validation_start(self) -> None:
        self.bank = self.first.weight.detach().norm()

    def validation_step(self, batch: list, batch_idx: int) -> None:
        self.log("val/largest", self.bank)


PROBE = Probe(
    question="Are all tensors that the trained network's outputs depend on in its checkpoint?",
    why="what a hook of training has set, and state_dict() leaves out, is not there when the checkpoint is loaded to "
    "test, predict or export",
    fix=Fix("keep it by register_buffer(name, tensor), which is saved unless persistent=False"),
    detect=detect,
    thresholds={
        "max_rounding": Threshold(
            1e-6,
            "relative: float32 in another order of its additions, eight times its spacing of 1.2e-7",
            faulty=type("Moved", (Scaled,), {"scale": 1 + 2e-6}),
            healthy=type("Rounded", (Scaled,), {"scale": 1 + 5e-7}),
        )
    },
    faulty=Scaled,
    healthy=type("Saved", (Scaled,), {"persistent": True}),
    also_healthy=(Neighbours,),
)
