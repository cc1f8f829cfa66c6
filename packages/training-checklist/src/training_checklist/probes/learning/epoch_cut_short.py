from typing import Any

from training_checklist.instruments import Small, TwoEpochs, fed
from training_checklist.probe import WARNING, Fix, Hit, Hits, Limits, Probe


def detect(run: TwoEpochs, limits: Limits) -> Hits:
    length = run.epochs.between.lengths
    short = [(epoch, done) for epoch, done in enumerate(length.done) if done < length.asked]
    if short and not length.ended:
        epoch, done = short[0]
        yield Hit(
            f"epoch {epoch} ends after {done} of {length.asked:g} batches, and nothing has asked for it", length.hooks
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
    detect=detect,
    fix=Fix("return nothing from on_train_batch_start; to leave a batch out, return None from training_step"),
    faulty=fed(Ending),
    healthy=fed(type("Whole", (Ending,), {"last": None})),
)
