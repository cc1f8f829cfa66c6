from collections.abc import Iterator
from typing import Any

from training_checklist.evidence.repetition import WorkerDraws
from training_checklist.finding import WARNING
from training_checklist.rule import Hit, Rule
from training_checklist.rules.reproducibility.workers_draw_alike import FIX, demand_draws, place_of


def judge(draws: WorkerDraws, limits: Any) -> Iterator[Hit]:
    demand_draws(draws)
    one, two = draws.first
    if draws.second == draws.first and one != two and not draws.persistent:
        yield Hit(
            "every epoch draws the same augmentation: the workers begin in the same state each time", place_of(draws)
        )


RULE = Rule(
    id="reproducibility/epochs-draw-alike",
    item="reproducibility",
    question="Do the DataLoader's workers draw different random numbers in each epoch?",
    why="the network sees each sample in one version only, as if it were not augmented",
    severity=WARNING,
    evidence=WorkerDraws,
    judge=judge,
    fix=FIX,
    faulty=lambda: WorkerDraws((["a", "b"], ["c", "d"]), (["a", "b"], ["c", "d"]), 2),
    healthy=lambda: WorkerDraws((["a", "b"], ["c", "d"]), (["a", "b"], ["c", "d"]), 2, persistent=True),
)
