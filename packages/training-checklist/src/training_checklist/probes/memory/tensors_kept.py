from collections import deque
from functools import partial

from torch import Tensor

from training_checklist.instruments import MemoryUse, Small, in_bytes, rises
from training_checklist.probe import WARNING, Fix, Hit, Hits, Limits, Place, Probe, Threshold


def detect(use: MemoryUse, limits: Limits) -> Hits:
    epochs = len(use.kept) - 1
    for place in max(use.kept, key=len):
        sizes = [size[place] for size in use.kept]
        grown = sizes[-1] - sizes[0]
        if place not in use.leaking and rises(sizes, least=3) and grown >= limits.min_kept_kb * 1024 * epochs:
            yield Hit(
                f"{place} keeps {in_bytes(grown)} more after {epochs} epochs of {len(use.graphs)} steps in all",
                Place(note=place),
                fix=Fix(
                    "clear it when the epoch ends, or use a metric of torchmetrics; what is to fill up to a size "
                    "of its own, such as a replay buffer, says so with collections.deque(maxlen=...)"
                ),
            )


class Buffer:
    """Keeps the last so many batches of answers."""

    def __init__(self, capacity: int) -> None:
        self.capacity, self.entries = capacity, []

    def append(self, entry: Tensor) -> None:
        self.entries = [*self.entries, entry][-self.capacity :]


class Collecting(Small):
    """Keeps what it answers, of 16 bytes a sample, so many times over."""

    times, cleared, container = 4, False, list

    def __init__(self) -> None:
        super().__init__()
        self.answers = self.container()

    def training_step(self, batch: list, batch_idx: int) -> Tensor:
        self.answers.append(self(batch[0]).detach().repeat(self.times, 1))
        return super().training_step(batch, batch_idx)

    def on_train_epoch_end(self) -> None:
        if self.cleared:
            self.answers.clear()


class UpTo(Collecting):
    def __init__(self) -> None:
        super().__init__()
        self.answers_size = 1000


PROBE = Probe(
    question="Are the tensors that an epoch collects cleared when it is over?",
    why="what is collected and never cleared fills memory in the end",
    severity=WARNING,
    fix=Fix("clear it when the epoch ends"),
    detect=detect,
    thresholds={
        "min_kept_kb": Threshold(
            1,
            "KiB in an epoch: a list of losses, 4 bytes a step, is less for up to 256 steps",
            healthy=type("Little", (Collecting,), {"times": 1}),
        )
    },
    faulty=Collecting,
    healthy=type("Clearing", (Collecting,), {"cleared": True}),
    also_healthy=(
        type("Replaying", (Collecting,), {"container": partial(Buffer, 1000)}),
        type("Queueing", (Collecting,), {"container": partial(deque, (), 1000)}),
        UpTo,
    ),
)
