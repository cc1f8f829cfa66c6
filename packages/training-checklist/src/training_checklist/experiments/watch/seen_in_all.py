"""What all looks and blocks of a training come to: the evidence that rules read."""

from collections.abc import Iterator, Sequence
from statistics import median

import torch
from torch import Tensor

from training_checklist.evidence.whole_training import (
    Lives,
    MemoryUse,
    OptimizerSeries,
    OutputScales,
    Speed,
    UnitLives,
    ends,
    parts,
)
from training_checklist.experiments.gradients.activations import Seen
from training_checklist.experiments.watch.look import Looked
from training_checklist.experiments.watch.timeline import Block
from training_checklist.finding import Place

PARTS = 8  # of a training: by chance its times, or its memory, rise from each to the next once in 8! = 40,320


def optimizer_series(looked: Sequence[Looked], optimizers: Sequence[str]) -> Iterator[OptimizerSeries]:
    for index, name in enumerate(optimizers):
        yield OptimizerSeries(name, [look.steps[index] for look in looked if index in look.steps])


def unit_lives(looked: Sequence[Looked]) -> UnitLives:
    """Return what became of units from the first third of the looks to the last; of calls that all looks share."""
    first, last = ends(list(looked))
    calls = zip(*(look.units for look in [*first, *last]), strict=False)
    lives = [life(call[: len(first)], call[len(first) :], last[0].step) for call in calls]
    return UnitLives([each for each in lives if each is not None])


def life(first: Sequence[Seen], last: Sequence[Seen], step: int) -> Lives | None:
    calls = [*first, *last]
    dims = set.intersection(*(set(call.alive) for call in calls))
    if not dims or len({(call.name, call.place) for call in calls}) > 1:
        return None
    # Of three dimensions either may be the units: those that are more often alive hide nothing.
    dim = max(dims, key=lambda dim: float(calls[0].alive[dim].float().mean()))
    if len({len(call.alive[dim]) for call in calls}) > 1:
        return None
    before, after = anywhere(first, dim), anywhere(last, dim)
    rows = min(sum(call.rows for call in part) for part in (first, last))
    died = int((before & ~after).sum())
    return Lives(calls[0].name, calls[0].place, int(before.sum()), died, len(before), rows, step)


def anywhere(calls: Sequence[Seen], dim: int) -> Tensor:
    return torch.stack([call.alive[dim] for call in calls]).any(0)


def output_scales(looked: Sequence[Looked]) -> OutputScales:
    """Return the scales of the modules that every look has met."""
    names = [name for name in (looked[0].scales if looked else ()) if all(name in look.scales for look in looked)]
    return OutputScales({name: [look.scales[name] for look in looked] for name in names}, steps_of(looked))


def last_gradients(looked: Sequence[Looked]) -> dict[str, float]:
    """Return the median gradient at each module's output in the last third of the looks."""
    _, last = ends(list(looked))
    names = [name for name in (last[0].gradients if last else ()) if all(name in look.gradients for look in last)]
    return {name: median(look.gradients[name] for look in last) for name in names}


def steps_of(looked: Sequence[Looked]) -> list[int]:
    return [look.step for look in looked]


def speed(blocks: Sequence[Block]) -> Speed:
    inside = parts(list(blocks), PARTS)
    return Speed(
        [median(block.wall for block in part) for part in inside],
        [median(block.processor for block in part) for part in inside],
        [part[-1].step for part in inside],
    )


def memory_of_process(blocks: Sequence[Block]) -> MemoryUse:
    return MemoryUse("memory of this process", *rows(blocks, [block.resident for block in blocks]))


def memory_of_device(blocks: Sequence[Block], device: torch.device) -> MemoryUse:
    use = MemoryUse("tensors on the device", *rows(blocks, [block.allocated for block in blocks]))
    use.place = Place(note=str(device))
    return use


def rows(blocks: Sequence[Block], used: Sequence[int | None]) -> tuple[list[int], list[int]]:
    """Return bytes and steps at the end of each part of the training; nothing where the bytes are not known."""
    known = [(bytes_, block.step) for bytes_, block in zip(used, blocks, strict=True) if bytes_ is not None]
    last = [part[-1] for part in parts(known, PARTS)]
    return [bytes_ for bytes_, _ in last], [step for _, step in last]
