import time
from itertools import pairwise
from statistics import median
from unittest.mock import patch

from torch import Tensor

from training_checklist.instruments import Small, WholeTraining, measured, parts
from training_checklist.probe import WARNING, Fix, Hit, Hits, Limits, Probe, Threshold


def detect(training: WholeTraining, limits: Limits) -> Hits:
    inside = parts(training.blocks)
    wall = [median(block.wall for block in part) for part in inside]
    processor = [median(block.processor for block in part) for part in inside]
    slower, more = wall[-1] / wall[0], processor[-1] / processor[0]
    rises = all(later > earlier for times in (wall, processor) for earlier, later in pairwise(times))
    if rises and min(slower, more) > limits.slower:
        yield Hit(
            f"a step takes {slower:.1f} times as long at the end as at the start, {1000 * wall[0]:.1f} ms to "
            f"{1000 * wall[-1]:.1f} ms, and longer in each of {len(wall)} parts of the training than in the one "
            f"before; this process computes {more:.1f} times as long in it"
        )


class Slowing(Small):
    """One whose steps wait and compute longer and longer, by clocks that they alone move: a real one counts others."""

    waiting, computing = 1.045, 1.026

    def on_train_start(self) -> None:
        self.wall = self.processor = 0.0
        self.clocks = patch.multiple(time, perf_counter=lambda: self.wall, process_time=lambda: self.processor)
        self.clocks.start()

    def training_step(self, batch: list, batch_idx: int) -> Tensor:
        computed = 0.006 * self.computing**self.global_step
        self.processor += computed
        self.wall += computed + 0.001 * self.waiting**self.global_step
        return super().training_step(batch, batch_idx)

    def on_train_end(self) -> None:
        self.clocks.stop()


PROBE = Probe(
    question="Does a step take no longer at the end of training than at the start?",
    why="a step works on more and more: a list, a graph or a metric that every step adds to fits; so do inputs that "
    "are meant to grow",
    severity=WARNING,
    may_be_wrong="other work on the machine slows steps down; a run alone tells",
    fix=Fix("see what grows, and where a step spends its time", items=("memory", "profile")),
    detect=detect,
    thresholds={
        "slower": Threshold(
            2,
            "times, of the clock and of this process's own time: what else a machine does prolongs the first without "
            "bound, and the second by at most that, where two threads share a core; up to 1.5 was measured",
        )
    },
    faulty=measured(Slowing),
    healthy=measured(type("Waiting", (Slowing,), {"computing": 1.012})),
)
