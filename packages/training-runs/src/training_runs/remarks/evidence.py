"""What a run has logged anyway, and the little besides that its remarks need."""

import math
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

from training_config.overrides import key_of

from training_runs.records.curves import read_rows
from training_runs.remarks.answers import ConstantAnswer


class Point(NamedTuple):
    step: int
    epoch: int | None  # from 0; None of what was not logged by the LightningModule
    value: float


Points = Mapping[str, Sequence[Point]]


@dataclass(frozen=True)
class Commands:
    """The command of a run, for what to do next."""

    script: str = "train.py"
    overrides: Sequence[str] = ()
    run: str | None = None  # its directory, where it has a checkpoint to go on from
    items: Sequence[str] = ()  # debug items that are at hand

    def again(self, *overrides: str) -> str:
        """Return the command of the same run with other overrides, which take the place of those of the same key."""
        keys = {key_of(override) for override in overrides}
        kept = [override for override in self.overrides if key_of(override) not in keys]
        return shlex.join(["python", self.script, *kept, *overrides])

    def debug(self, item: str) -> str | None:
        return self.again(f"+debug={item}") if item in self.items else None

    def on(self, *overrides: str) -> str | None:
        """Return the command that goes on with the run."""
        return None if self.run is None else shlex.join(["python", self.script, f"resume={self.run}", *overrides])


@dataclass(frozen=True)
class Evidence:
    """A run that came to its end.

    Attributes:
        points: every metric of metrics.csv; none without a CSV logger.
        metrics: what run.json has.
        answers: by split, what a constant answer scores.
        cross_entropy: whether the losses are one.
        cut: whether epochs were cut short: what is tried with a few batches need not learn.
        longer: the override that trains as long again; None where something else ended training.
        scheduled: whether the learning rate follows a schedule that ends with training.
    """

    points: Points = field(default_factory=dict)
    metrics: Mapping[str, float | None] = field(default_factory=dict)
    monitor: str = "val/loss"
    mode: str = "min"
    answers: Mapping[str, ConstantAnswer] = field(default_factory=dict)
    cross_entropy: bool = False
    cut: bool = False
    longer: str | None = None
    scheduled: bool = False
    commands: Commands = field(default_factory=Commands)

    @cached_property
    def epochs(self) -> dict[str, dict[int, float]]:
        """By metric the mean of each epoch, without what is not finite and without what is logged by step."""
        return {name: means(points) for name, points in self.points.items() if not name.endswith("_step")}

    @property
    def sign(self) -> int:
        return 1 if self.mode == "max" else -1

    @property
    def monitored(self) -> list[float]:
        """The monitored metric times `sign`, an epoch a value: larger is better."""
        return [self.sign * value for value in self.epochs.get(self.monitor, {}).values()]


def means(points: Sequence[Point]) -> dict[int, float]:
    epochs: dict[int, list[float]] = {}
    for _, epoch, value in points:
        if epoch is not None and math.isfinite(value):
            epochs.setdefault(epoch, []).append(value)
    return {epoch: math.fsum(values) / len(values) for epoch, values in epochs.items()}


def read_points(table: Path) -> dict[str, list[Point]]:
    """Return what the CSV logger has written of training and validation; nothing where there is no such table."""
    points: dict[str, list[Point]] = {}
    for row in read_rows(table):
        epoch = int(float(row["epoch"])) if row.get("epoch") else None
        for name, value in row.items():
            if value and name.startswith(("train/", "val/")):
                points.setdefault(name, []).append(Point(int(float(row["step"])), epoch, float(value)))
    return points
