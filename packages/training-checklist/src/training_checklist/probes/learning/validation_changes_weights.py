from copy import deepcopy
from typing import Any

import torch
from torch import Tensor
from torch.nn.parameter import is_lazy

from training_checklist.instruments import (
    EpochListener,
    TwoEpochs,
    Validated,
    around_step,
    digest_of,
    hooks_of,
    pass_on,
    shown,
)
from training_checklist.lightning import LightningModule, Trainer
from training_checklist.probe import CannotJudge, Fix, Hit, Hits, Limits, Place, Probe

AROUND = (
    "on_validation_start",
    "on_validation_epoch_start",
    "on_validation_model_eval",
    "on_validation_epoch_end",
    "on_validation_end",
)


class WeightsAroundValidation(EpochListener):
    """Compares the parameters before validation, during it, and when training goes on.

    Attributes:
        changed: those that training goes on with as validation had them, and not as they were before; None: not known.
        place: of hooks around validation that the project has.
        forward: of training steps.
    """

    def __init__(self, run: TwoEpochs) -> None:
        super().__init__(run)
        self.forward = Forward(run.pl_module)
        if run.pl_module.automatic_optimization:
            self.watching.enter_context(around_step(run.pl_module, self.forward))
        self.weights: dict[str, dict[str, str]] = {}  # digests of parameters by when they were taken
        self.changed: list[str] | None = None
        self.place = Place()

    def on_train_epoch_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Keep the weights when the loop of validation is entered, before any hook."""
        loop = trainer.fit_loop.epoch_loop.val_loop
        if "run" in vars(loop):
            return
        run = loop.run

        def after_a_look() -> Any:
            self.weights["before"] = digests(pl_module)
            return pass_on(run)

        loop.run = after_a_look
        self.watching.callback(vars(loop).pop, "run", None)

    def on_train_batch_start(self, trainer: Trainer, pl_module: LightningModule, *_: Any) -> None:
        if "within" in self.weights:
            before, within, now = self.weights["before"], self.weights["within"], digests(pl_module)
            after = self.weights.get("after", within)  # a batch of validation, which may have moved a teacher
            # A frozen average that is made anew before each validation is no weight of training.
            trained = {name for name, each in pl_module.named_parameters() if each.requires_grad}
            changed = [
                name
                for name, known in now.items()
                if known != before.get(name)
                and ((known == within.get(name) and name in trained) or after.get(name) != within.get(name))
                if name not in self.forward.changes
            ]
            if not self.changed:
                self.changed, self.place = changed, hooks_of(trainer, pl_module, AROUND)
        self.weights.clear()

    def on_validation_batch_start(
        self, trainer: Trainer, pl_module: LightningModule, batch: Any, batch_idx: int, dataloader_idx: int = 0
    ) -> None:
        if batch_idx == dataloader_idx == 0 and "before" in self.weights:
            self.weights["within"] = digests(pl_module)

    def on_validation_batch_end(self, trainer: Trainer, pl_module: LightningModule, *_: Any) -> None:
        if "within" in self.weights and "after" not in self.weights:
            self.weights["after"] = digests(pl_module)


class Forward:
    """Compares the parameters before and after a training step, once an optimizer has moved them.

    Attributes:
        changes: those that the step itself changes, with no optimizer: by a mask, or to a greatest norm.
    """

    def __init__(self, pl_module: LightningModule) -> None:
        self.pl_module, self.steps, self.before = pl_module, 0, {}
        self.changes: set[str] = set()

    def __enter__(self) -> None:
        self.before = digests(self.pl_module) if self.steps == 1 else {}

    def __exit__(self, *error: object) -> None:
        self.steps += 1
        now = digests(self.pl_module) if self.before else {}
        self.changes |= {name for name, known in self.before.items() if now.get(name) != known}


def digests(pl_module: LightningModule) -> dict[str, str]:
    """Return what tells weights, those of a teacher too, from others."""
    return {name: digest_of(each.detach()) for name, each in pl_module.named_parameters() if not is_lazy(each)}


def detect(run: TwoEpochs, limits: Limits) -> Hits:
    seen = run.heard()
    if seen.changed is None:
        raise CannotJudge("no training step came after validation")
    if seen.changed:
        total = sum(1 for _ in run.pl_module.parameters())
        yield Hit(
            f"training goes on from other weights than those that it had before validation: {len(seen.changed)} of "
            f"{total} parameters are what validation put there",
            seen.place.beside(parameter=shown(seen.changed)),
        )


class Swapping(Validated):
    """Validates with the weights of the start."""

    puts_back = False

    def on_train_start(self) -> None:
        self.at_start = deepcopy(self.state_dict())

    def on_validation_start(self) -> None:
        self.trained = deepcopy(self.state_dict())
        self.load_state_dict(self.at_start)

    def on_validation_end(self) -> None:
        if self.puts_back:
            self.load_state_dict(self.trained)


class Averaged(Validated):
    """Validates by a copy, which gets the weights before each pass."""

    def __init__(self) -> None:
        super().__init__()
        self.copy = deepcopy(self.head).requires_grad_(False)

    def on_validation_epoch_start(self) -> None:
        self.copy.load_state_dict(self.head.state_dict())

    def forward(self, inputs: Tensor) -> Tensor:
        head = self.head if self.training else self.copy
        return head(torch.relu(self.first(inputs)))


class Masked(Validated):
    """Its forward multiplies weights by a mask, in place: the optimizer moves them all."""

    def forward(self, inputs: Tensor) -> Tensor:
        self.first.weight.data.tril_()
        return super().forward(inputs)


PROBE = Probe(
    question="Are the weights the same before and after validation?",
    why="every epoch begins with the weights that were put in for validation, such as an average of earlier ones, and "
    "the steps between are lost",
    listener=WeightsAroundValidation,
    detect=detect,
    fix=Fix("put the trained weights back in on_validation_end"),
    faulty=Swapping,
    healthy=type("PuttingBack", (Swapping,), {"puts_back": True}),
    also_healthy=(Masked, Averaged),
)
