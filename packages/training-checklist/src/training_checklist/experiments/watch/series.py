"""Everything that was watched, as points of named series: what the table holds, and the figure shows."""

import csv
from collections.abc import Iterable, Sequence
from dataclasses import astuple, dataclass, fields
from pathlib import Path

from training_checklist.experiments.watch.look import Looked
from training_checklist.experiments.watch.timeline import Block


@dataclass(frozen=True)
class Point:
    """One value.

    Args:
        series: what it is.
        of: whose: an optimizer, the path of a module, the place of an activation function.
        step: of the training.
    """

    series: str
    of: str
    step: int
    value: float


def points(looked: Iterable[Looked], blocks: Iterable[Block], optimizers: Sequence[str]) -> list[Point]:
    found = [point for look in looked for point in of_look(look, optimizers)]
    for block in blocks:
        found.append(Point("seconds_a_step", "", block.step, block.wall))
        found.append(Point("processor_seconds_a_step", "", block.step, block.processor))
        found += [Point("memory_bytes", "process", block.step, block.resident)] * (block.resident is not None)
        found += [Point("memory_bytes", "device", block.step, block.allocated)] * (block.allocated is not None)
    return sorted(found, key=lambda point: point.series)  # within one: by step, and modules in the order of their calls


def of_look(look: Looked, optimizers: Sequence[str]) -> Iterable[Point]:
    for index, step in look.steps.items():
        name = f"{optimizers[index]}[{index}]"
        yield Point("update_ratio", name, look.step, step.ratio)
        yield Point("gradient_norm", name, look.step, step.gradient)
        if step.rate is not None:
            yield Point("learning_rate", name, look.step, step.rate)
    yield from (Point("gradient_at_output", path, look.step, value) for path, value in look.gradients.items())
    yield from (Point("output_scale", path, look.step, value) for path, value in look.scales.items())
    for number, call in enumerate(look.units):
        if call.alive:
            share = min(1 - float(units.float().mean()) for units in call.alive.values())
            yield Point("share_without_slope", f"{number} {call.name} in {call.place.module}", look.step, share)


def write_table(path: Path, series: Iterable[Point]) -> None:
    """Write a row a point."""
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow([each.name for each in fields(Point)])
        writer.writerows(astuple(point) for point in series)
