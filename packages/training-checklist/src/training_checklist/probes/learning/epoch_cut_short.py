from typing import Any

from training_checklist.instruments import EpochListener, Small, TwoEpochs, hooks_of, several_steps
from training_checklist.lightning import LightningModule, Trainer
from training_checklist.probe import WARNING, Fix, Hit, Hits, Limits, Probe


class EpochLength(EpochListener):
    """Counts training batches.

    Attributes:
        done: by epoch, those of which a step was made.
        ended: whether training was told to stop.
    """

    def __init__(self, run: TwoEpochs) -> None:
        super().__init__(run)
        self.done: list[int] = []
        self.ended = False

    def on_train_epoch_start(self, *_: Any) -> None:
        self.done.append(0)

    def on_train_batch_end(self, trainer: Trainer, pl_module: LightningModule, *_: Any) -> None:
        self.done[-1] += 1
        self.ended |= trainer.should_stop


def detect(run: TwoEpochs, limits: Limits) -> Hits:
    seen, asked = run.heard(), run.trainer.num_training_batches
    short = [(epoch, done) for epoch, done in enumerate(seen.done) if done < asked]
    if short and not seen.ended:
        epoch, done = short[0]
        yield Hit(
            f"epoch {epoch} ends after {done} of {asked:g} batches, and nothing has asked for it",
            hooks_of(run.trainer, run.pl_module, ("on_train_batch_start",)),
        )


class Ending(Small):
    last = 3

    def on_train_batch_start(self, batch: Any, batch_idx: int) -> int | None:
        return -1 if batch_idx == self.last else None


PROBE = Probe(
    question="Does each training epoch run through all of its batches?",
    why="what comes after is never trained on; Lightning ends an epoch without a word where on_train_batch_start "
    "returns -1",
    severity=WARNING,
    listener=EpochLength,
    detect=detect,
    fix=Fix("return nothing from on_train_batch_start; to leave a batch out, return None from training_step"),
    faulty=several_steps(Ending),
    healthy=several_steps(type("Whole", (Ending,), {"last": None})),
)
