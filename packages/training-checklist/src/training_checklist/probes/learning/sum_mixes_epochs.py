from torch import Tensor

from training_checklist.instruments import Sums, TwoEpochs, Validated, of_function, shown
from training_checklist.probe import CannotJudge, Fix, Hit, Hits, Limits, Probe


def detect(run: TwoEpochs, limits: Limits) -> Hits:
    sums = run.heard()
    if len(sums.epochs) < 2:
        raise CannotJudge("there were no two epochs of validation")
    for function, kept in sums.kept():
        what = f"{shown(kept)} when an epoch of validation begins, as the one before has left it"
        yield Hit(f"{what}, and its batches add to it", of_function(function))


class Summed(Validated):
    resets = False

    def __init__(self) -> None:
        super().__init__()
        self.right = self.seen = self.batches = 0

    def validation_step(self, batch: list, batch_idx: int) -> None:
        self.right += int((self(batch[0]).argmax(1) == batch[1]).sum())
        self.seen += len(batch[1])
        self.batches += 1

    def on_validation_epoch_end(self) -> None:
        self.log("val/accuracy", self.right / self.seen)
        self.log("val/batches", float(self.batches))
        if self.resets:
            self.right = self.seen = 0


class Listed(Validated):
    def __init__(self) -> None:
        super().__init__()
        self.losses: list[Tensor] = []

    def validation_step(self, batch: list, batch_idx: int) -> None:
        self.losses.append(self.loss(self(batch[0]), batch[1]))

    def on_validation_epoch_end(self) -> None:
        self.log("val/loss", sum(self.losses) / len(self.losses))


class Tabled(Listed):
    """Keeps its losses for a table of a logger that this run has not, and logs another number."""

    def on_validation_epoch_end(self) -> None:
        self.log("val/epoch", float(self.current_epoch))
        if self.logger is not None and hasattr(self.logger, "log_table"):
            self.logger.log_table("losses", self.losses)
            self.losses = []


class Latest(Validated):
    """Logs what the last batch has left: nothing is added up."""

    latest = 0.0

    def validation_step(self, batch: list, batch_idx: int) -> None:
        self.latest = self.trainer.global_step + batch_idx

    def on_validation_epoch_end(self) -> None:
        self.log("val/latest", self.latest)


PROBE = Probe(
    question="Is what a module adds up over an epoch of validation set back before the next one?",
    why="what is logged of it mixes epochs: it changes less with each, and the best epoch cannot be told",
    listener=Sums,
    detect=detect,
    fix=Fix(
        "set it back in on_validation_epoch_start; self.log(..., on_epoch=True) and torchmetrics do that themselves"
    ),
    faulty=Summed,
    also_faulty=(Listed,),
    healthy=type("Reset", (Summed,), {"resets": True}),
    also_healthy=(Latest, Tabled),
)
