"""The points of training at which the ranks meet, and what of the project runs between them."""

from typing import NamedTuple

from training_checklist.engines.places import of_hooks
from training_checklist.finding import Place
from training_checklist.lightning import LightningModule

RENDEZVOUS = "rendezvous"
TRAINING_START, BATCH_START, BACKWARD, STEP, BATCH_END = (
    "start of training",
    "start of batch",
    "backward pass",
    "optimizer step",
    "end of batch",
)
VALIDATION_START, VALIDATION_METRICS, VALIDATION_END, EPOCH_END, TRAINING_END = (
    "start of validation",
    "last batch of validation",
    "end of validation",
    "end of epoch",
    "end of training",
)
IN_BATCH = (BATCH_START, BACKWARD, STEP, BATCH_END)
LATE = (VALIDATION_START, VALIDATION_METRICS, VALIDATION_END, EPOCH_END, TRAINING_END)
PHASES = (TRAINING_START, *IN_BATCH, *LATE)
# What runs between a meeting and the one before, and so can have changed parameters or gradients.
BEFORE = {
    BATCH_START: ("on_train_batch_end",),
    BACKWARD: ("on_train_batch_start", "training_step"),
    STEP: ("on_after_backward", "backward", "training_step"),
    BATCH_END: (
        "backward",
        "on_after_backward",
        "on_before_optimizer_step",
        "configure_gradient_clipping",
        "optimizer_step",
        "configure_optimizers",
    ),
}
BEFORE_TRAINING = ("on_train_start", "on_train_epoch_start")
BEFORE_EPOCH = (
    "on_train_batch_end",
    "on_validation_start",
    "validation_step",
    "on_validation_epoch_end",
    "on_train_epoch_end",
    "on_train_epoch_start",
)


class Stage(NamedTuple):
    """Where in training a rank is."""

    epoch: int
    batch: int
    phase: str
    step: int

    def __str__(self) -> str:
        if self.phase in IN_BATCH:
            return f"the {self.phase} of batch {self.batch} in epoch {self.epoch}".replace(" batch of batch", " batch")
        return f"the {self.phase} {self.epoch}" if self.phase == EPOCH_END else f"the {self.phase}"

    def order(self) -> tuple[int, int, int]:
        return self.epoch, self.batch, PHASES.index(self.phase)

    def numbers(self) -> list[int]:
        return [self.epoch, self.batch, PHASES.index(self.phase), self.step]

    def hooks(self, pl_module: LightningModule) -> Place:
        """Return the project's hooks that run before this stage, and after the one before it."""
        hooks = BEFORE.get(self.phase, ())
        if self.phase == BATCH_START and self.batch == 0:
            hooks = BEFORE_TRAINING if self.epoch == 0 else BEFORE_EPOCH
        return of_hooks(pl_module, hooks)


def stage_of(numbers: list[int]) -> Stage:
    epoch, batch, phase, step = numbers
    return Stage(epoch, batch, PHASES[phase], step)
