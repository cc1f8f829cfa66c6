"""A training that is watched for two short epochs, and copies of its network that are trained before that."""

from typing import TYPE_CHECKING, Any

from training_checklist.engines.splits import Split, splits
from training_checklist.engines.trial import NO_OPTIMIZER
from training_checklist.lab.schedules import Schedules, times_cut
from training_checklist.lightning import LightningModule, Trainer
from training_checklist.probe import CannotJudge

if TYPE_CHECKING:
    from training_checklist.lab.listeners import Listeners

BY_HAND = "the module steps its optimizers itself, so that no learning rate was tried"


class TwoEpochs(Schedules):
    """What a training shows.

    What is derived from it before the first step knows the run as long as it was asked for.

    Attributes:
        monitors: who waits for a metric, and for which.
        named: callbacks that write a value into the names of checkpoints, and what that is called.
        modes: who takes less or more of a metric for better, of which, and "min" or "max".
        least_gains: min_delta of EarlyStopping, by its metric.
        epochs: the listeners of probes, when two epochs are over.
        switches: knows which line has put a module into eval mode.
        validated: names of what validation has logged.
        logged: names of all that was logged.
        directions: "max" or "min" by the names of metrics whose class tells what is better; None of unknown ones.
        is_sound: whether nothing was found before the first step that could be the cause of what else is seen.
        untrained: why no copy of the network could be trained, "" where one could.
        cut: how many times as long the run would be in the project's files: see `times_cut`.
        notes: for the report's line.
        facts: for the report.
        options: of the item: see there.
        deadline: after which no further copy is trained.
    """

    epochs: "Listeners"
    validated: list[str]
    logged: list[str]
    directions: dict[str, str | None]
    least_gains: dict[str, float]
    monitors: list[tuple[str, str]]
    named: list[tuple[str, str]]
    modes: list[tuple[str, str, str]]
    is_sound: bool

    def __init__(self, trainer: Trainer, pl_module: LightningModule, **options: Any) -> None:
        self.trainer, self.pl_module, self.options = trainer, pl_module, options
        self.notes: list[str] = []
        self.steps = trainer.estimated_stepping_batches  # of the optimizer in the run that was asked for
        self.cut = times_cut(trainer)  # here: the item cuts the run itself, too
        self.facts: dict[str, Any] = {}
        self.untrained, self.deadline = "", 0.0

    def heard(self) -> Any:
        """Return the listener of the probe that asks, which has seen two epochs.

        Raises:
            Exception: that the listener has raised.
        """
        return self.epochs.heard(self.asks.listener)

    def ask_for_one_optimizer(self) -> None:
        if self.untold:
            raise CannotJudge(self.untold)
        if not any(each.param_groups for each in self.trainer.optimizers):
            raise CannotJudge(NO_OPTIMIZER)

    def indexed(self, stage: str) -> Split:
        """Return the first split of training or validation that gives single samples by their index.

        Raises:
            CannotJudge: there is none, or a step has more to it than answers to a batch.
        """
        _ = self.epochs  # not before they are over: it puts the network into other modes for a while
        if not self.pl_module.automatic_optimization or self.trainer.world_size > 1:
            raise CannotJudge("a step that drives its optimizers, or that other ranks wait in, is not taken again")
        loader = self.trainer.train_dataloader if stage == "train" else self.trainer.val_dataloaders
        found = splits(stage, loader)[:1]
        if not found or not found[0].indexable:
            raise CannotJudge(f"no dataset of {stage} gives single samples by their index")
        return found[0]
