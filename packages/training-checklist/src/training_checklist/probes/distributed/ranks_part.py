from typing import Any

from training_checklist.instruments import Apart, Example, Ranks, Small, loader
from training_checklist.probe import Fix, Hit, Hits, Limits, Probe

ENDED = Fix(
    "give all ranks as many batches (DistributedSampler, drop_last=True), and let all decide alike when to stop"
)


def detect(ranks: Ranks, limits: Limits) -> Hits:
    event = ranks.end
    if isinstance(event, Apart):
        what = "the ranks run different numbers of batches" if event.ended else "the ranks have parted"
        place = event.hooks.beside(rank=str(event.rank), batch=ranks.batch)
        place = place.beside(loader="train_dataloader") if event.ended else place
        yield Hit(f"{what}: {event.told}", place, fix=ENDED if event.ended else None)


class Stopping(Small):
    """Ends the epoch with its third batch, on some ranks."""

    ranks = (1,)

    def on_train_batch_start(self, batch: Any, batch_idx: int) -> int | None:
        return -1 if batch_idx == 2 and self.global_rank in self.ranks else None


PROBE = Probe(
    question="Are all ranks at the same point of training whenever they synchronise?",
    why="gradients are averaged in each backward pass: a rank waits for ever, or gets those of another batch",
    fix=Fix("take the same way on all ranks; to skip a batch, return a loss times 0 with all parameters in it"),
    detect=detect,
    faulty=Example(Stopping, lambda: loader(4), item={"timeout": 3}),
    healthy=Example(type("Together", (Stopping,), {"ranks": (0, 1)}), lambda: loader(4)),
)
