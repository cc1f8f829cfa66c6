from collections.abc import Iterator
from typing import Any

from training_checklist.evidence.repetition import TwoRuns, made
from training_checklist.finding import FAILED, Fix, Place
from training_checklist.rule import Hit, Rule
from training_checklist.rules.reproducibility.other_samples import LOADERS

DRAWS = "the dataset gives other values for one position even after the same seed: it draws from a generator of its own"
SPLIT = "the dataset gives the same for one position after the same seed: other samples stand there in the other run, "
SPLIT += "by a split with no seed or a listing in no fixed order"


def judge(runs: TwoRuns, limits: Any) -> Iterator[Hit]:
    loader = LOADERS.get(runs.kind())
    if loader is None or runs.one.seed != runs.two.seed or not runs.drawn_alike(loader):
        return
    row, steady = runs.parted[0], runs.steady(loader)
    place = Place(loader=loader, batch=row.step, note=", ".join(runs.one.generators))
    place, why = runs.at(place, {True: SPLIT, False: DRAWS}.get(steady, RULE.why))
    yield Hit(
        f"two runs with one seed draw the same positions of the dataset, and the values there differ, first {row.name} "
        f"of step {row.step}: {runs.numbers()}",
        place,
        why,
    )


RULE = Rule(
    id="reproducibility/sample-values-differ",
    item="reproducibility",
    question="Does the dataset give the same values for the same index in two runs with one seed?",
    why="the dataset draws from a generator that has no seed, or other samples stand there, by a split with no seed",
    severity=FAILED,
    evidence=TwoRuns,
    judge=judge,
    fix=Fix(
        "draw with torch.rand or numpy.random.rand, which are seeded; random_split(..., "
        "generator=torch.Generator().manual_seed(cfg.seed)); sort what is listed"
    ),
    faulty=lambda: TwoRuns(
        made("a", kind="batch", drawn={"train_dataloader": ["1"]}, steady={"train_dataloader": False}),
        made("b", kind="batch", drawn={"train_dataloader": ["1"]}),
    ),
    healthy=lambda: TwoRuns(
        made("a", kind="batch", drawn={"train_dataloader": ["1"]}, steady={"train_dataloader": False}),
        made("a", kind="batch", drawn={"train_dataloader": ["1"]}),
    ),
)
