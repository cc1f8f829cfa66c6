from collections.abc import Iterator
from itertools import takewhile
from typing import Any

from training_checklist.engines.first_difference import first_difference
from training_checklist.evidence.repetition import TwoRuns, made
from training_checklist.evidence.rows import Row
from training_checklist.finding import FAILED, Fix, Place
from training_checklist.rule import CannotJudge, Hit, Rule

KINDS = ("loss", "gradient", "parameter", "end of training")
IN_KIND = {"gradient": "backward", "parameter": "the optimizer's step, or what follows it"}


def judge(runs: TwoRuns, limits: Any) -> Iterator[Hit]:
    if runs.kind() not in KINDS or runs.one.seed != runs.two.seed:
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


RULE = Rule(
    id="reproducibility/steps-differ",
    item="reproducibility",
    question="Do two runs with one seed, the same weights and the same batches take the same steps?",
    why="all before it is equal: it draws from what no seed reaches (numpy's default_rng(), the clock, a set's order)",
    severity=FAILED,
    evidence=TwoRuns,
    judge=judge,
    fix=Fix("draw with torch.rand or numpy.random.rand, which seed_everything seeds"),
    faulty=lambda: TwoRuns(made("a", kind="loss"), made("b", kind="loss")),
    healthy=lambda: TwoRuns(made("a", kind="loss"), made("a", kind="loss")),
)
