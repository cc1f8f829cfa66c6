import ast
from typing import Any

from torch.utils.data import DataLoader

from training_checklist.instruments import (
    EpochListener,
    Example,
    Small,
    TwoEpochs,
    is_overridden,
    loader,
    of_function,
    several_steps,
    tree_of,
)
from training_checklist.lightning import LightningModule, Trainer
from training_checklist.probe import REMARK, WARNING, Fix, Hit, Hits, Limits, Place, Probe

HOOK = "on_train_batch_start"


class EpochLength(EpochListener):
    """Counts training batches.

    Attributes:
        done: by epoch, those of which a step was made.
        asked: by epoch, those that there were to be.
        ended: whether training was told to stop, or has made all its steps.
    """

    def __init__(self, run: TwoEpochs) -> None:
        super().__init__(run)
        self.done: list[int] = []
        self.asked: list[float] = []
        self.ended = False

    def on_train_epoch_start(self, trainer: Trainer, *_: Any) -> None:
        self.done.append(0)
        self.asked.append(trainer.num_training_batches)

    def on_train_batch_end(self, trainer: Trainer, pl_module: LightningModule, *_: Any) -> None:
        self.done[-1] += 1
        # With manual optimization a batch makes as many steps as it likes, and max_steps may end any epoch.
        self.ended |= trainer.should_stop or 0 < trainer.max_steps <= trainer.global_step


def detect(run: TwoEpochs, limits: Limits) -> Hits:
    seen, module = run.heard(), type(run.pl_module)
    epochs = enumerate(zip(seen.done, seen.asked, strict=True))
    short = [(epoch, done, asked) for epoch, (done, asked) in epochs if done < asked]
    if short and not seen.ended:
        epoch, done, asked = short[0]
        is_own = is_overridden(HOOK, run.pl_module)
        yield Hit(
            f"epoch {epoch} ends after {done} of {asked:g} batches, and the Trainer was not asked to stop",
            of_function(getattr(module, HOOK)) if is_own else Place(),
            severity=REMARK if ends_by_its_state(getattr(module, HOOK)) else None,
        )


def ends_by_its_state(hook: Any) -> bool:
    """Whether a hook says `return -1` under a condition that is none of the batch number, as when it has converged."""
    tree = tree_of(hook)
    numbers = {each.arg for node in ast.walk(tree) if isinstance(node, ast.arguments) for each in node.args[2:]}
    return any(
        isinstance(node, ast.If)
        and any(isinstance(each, ast.Return) and each.value and ast.unparse(each.value) == "-1" for each in node.body)
        and numbers.isdisjoint(each.id for each in ast.walk(node.test) if isinstance(each, ast.Name))
        for node in ast.walk(tree)
    )


class Ending(Small):
    last = 3

    def on_train_batch_start(self, batch: Any, batch_idx: int) -> int | None:
        return -1 if batch_idx == self.last else None


class Converging(Small):
    """Ends its epoch when it has converged, which is remarked."""

    def on_train_batch_start(self, batch: Any, batch_idx: int) -> int | None:
        if self.has_converged():
            return -1
        return None

    def has_converged(self) -> bool:
        return self.global_step % 5 == 3


class Growing(Small):
    """Trains on more batches in each epoch."""

    def train_dataloader(self) -> DataLoader:
        return loader(8 if self.current_epoch == 0 else 4)


class Thrice(Small):
    """Makes three steps with each batch."""

    def __init__(self) -> None:
        super().__init__()
        self.automatic_optimization = False

    def training_step(self, batch: Any, batch_idx: int) -> None:
        for _ in range(3):
            self.manual_backward(super().training_step(batch, batch_idx))
            self.optimizers().step()


PROBE = Probe(
    question="Does each training epoch run through all of its batches?",
    why="what comes after is never trained on; Lightning ends an epoch without a word where on_train_batch_start "
    "returns -1",
    severity=WARNING,
    listener=EpochLength,
    detect=detect,
    fix=Fix("return nothing from on_train_batch_start; to leave a batch out, return None from training_step"),
    faulty=several_steps(Ending),
    also_faulty=(several_steps(Converging),),
    healthy=several_steps(type("Whole", (Ending,), {"last": None})),
    also_healthy=(
        Example(Growing, None, trainer={"reload_dataloaders_every_n_epochs": 1}),
        several_steps(Thrice, max_steps=12),
    ),
)
