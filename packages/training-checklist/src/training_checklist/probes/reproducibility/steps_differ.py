import random
from collections.abc import Callable
from itertools import takewhile

from torch import Tensor

from training_checklist.instruments import Row, SeededRuns, Small, TwoRuns, first_difference
from training_checklist.probe import CannotJudge, Fix, Hit, Hits, Limits, Place, Probe

KINDS = ("loss", "gradient", "parameter", "end of training")
IN_KIND = {"gradient": "backward", "parameter": "the optimizer's step, or what follows it"}


def detect(seeded: SeededRuns, limits: Limits) -> Hits:
    runs = seeded.parted
    if runs is None or runs.kind() not in KINDS:
        return
    if runs.one.unordered:
        raise CannotJudge(runs.one.unordered)
    row = runs.parted[0]
    operation = first_operation(runs, row.step)
    what = f"two runs with one seed differ, first in the {f'{row.kind} {row.name}'.strip()} of step {row.step}: "
    what += runs.numbers()
    if operation is not None:
        yield Hit(f"{what}; the first operation with another result is {operation.name}", operation.place)
        return
    place = runs.hooks.get(row.kind, Place())
    note = "; ".join(part for part in (IN_KIND.get(row.kind), place.note) if part)
    yield Hit(what, place.beside(parameter=row.name, batch=row.step, note=note))


def first_operation(runs: TwoRuns, step: int) -> Row | None:
    """Return the first operation of a step whose result differs; None where all are equal, or paths part."""
    one, two = (
        [row for row in takewhile(lambda row: row.step <= step, run.operations) if row.step == step]
        for run in (runs.one, runs.two)
    )
    found = first_difference(one, two, Row.equals)
    return None if found is None else found.one


def noise(draw: Callable[[], float]) -> type[Small]:
    return type("Noisy", (Small,), {"forward": lambda self, inputs: noisy(self, inputs, draw)})


def noisy(module: Small, inputs: Tensor, draw: Callable[[], float]) -> Tensor:
    return Small.forward(module, inputs) * draw()


PROBE = Probe(
    question="Do two runs with one seed, the same weights and the same batches take the same steps?",
    why="all before it is equal: it draws from what no seed reaches (numpy's default_rng(), the clock, a set's order)",
    fix=Fix("draw with torch.rand or numpy.random.rand, which seed_everything seeds"),
    detect=detect,
    faulty=noise(random.SystemRandom().random),
    healthy=noise(random.random),
)
