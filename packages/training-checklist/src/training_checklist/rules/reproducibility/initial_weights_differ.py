from collections.abc import Iterator
from typing import Any

from training_checklist.engines.first_difference import differing
from training_checklist.evidence.repetition import Recording, TwoRuns, made
from training_checklist.finding import FAILED, Fix, Place
from training_checklist.rule import CannotJudge, Hit, Rule

KIND = "initial weight"


def judge(runs: TwoRuns, limits: Any) -> Iterator[Hit]:
    if not runs.rebuilt:
        raise CannotJudge("both runs got copies of one network; a function that makes it lets each make its own")
    if runs.kind() != KIND or runs.one.seed != runs.two.seed:
        return
    weights = digests(runs.one)
    different = differing([weights, digests(runs.two)])
    place, why = runs.at(Place(parameter=different[0], note="as it is initialised"), RULE.why)
    yield Hit(
        f"two runs with one seed begin with different weights: {len(different)} of {len(weights)} tensors; "
        f"{different[0]} has {runs.numbers()}",
        place,
        why,
    )


def digests(recording: Recording) -> dict[str, str]:
    return {row.name: row.digest for row in recording.rows if row.kind == KIND}


RULE = Rule(
    id="reproducibility/initial-weights-differ",
    item="reproducibility",
    question="Do two runs with one seed begin with the same weights?",
    why="the seed is the same in both: these are drawn before it is set, or from what it does not reach (numpy's "
    "default_rng(), the clock, the order of a set)",
    severity=FAILED,
    evidence=TwoRuns,
    judge=judge,
    fix=Fix("seed_everything(cfg.seed, workers=True) as the training function's first line; draw with torch"),
    faulty=lambda: TwoRuns(made("a", "c"), made("b", "c")),
    healthy=lambda: TwoRuns(made("a", "c"), made("a", "c")),
)
