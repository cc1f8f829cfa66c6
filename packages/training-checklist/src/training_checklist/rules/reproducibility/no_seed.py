from collections.abc import Iterator
from typing import Any

from training_checklist.evidence.repetition import TwoRuns, made
from training_checklist.finding import FAILED, Fix, Place
from training_checklist.rule import Hit, Rule


def judge(runs: TwoRuns, limits: Any) -> Iterator[Hit]:
    if runs.parted is None or runs.one.seed == runs.two.seed:
        return
    row = runs.parted[0]
    place = runs.seeds[0] if runs.seeds else Place()
    place, why = runs.at(place.beside(parameter=row.name) if row.kind == "initial weight" else place, RULE.why)
    yield Hit(
        f"no seed is set, or another one in each run: torch's was {runs.one.seed} and {runs.two.seed}, and the runs "
        f"part in the {f'{row.kind} {row.name}'.strip()} of step {row.step}: {runs.numbers()}",
        place,
        why,
        fix=Fix(overrides=tuple(f"{key.key}=42" for key in runs.seeds[:1])) if runs.seeds else None,
    )


RULE = Rule(
    id="reproducibility/no-seed",
    item="reproducibility",
    question="Is a seed set, so that two runs of one command begin with the same one?",
    why="a process begins with a seed that torch draws: nothing that comes out can be had once more",
    severity=FAILED,
    evidence=TwoRuns,
    judge=judge,
    fix=Fix("seed_everything(cfg.seed, workers=True) as the training function's first line"),
    faulty=lambda: TwoRuns(made("a", seed=1), made("b", seed=2), [Place(key="seed", value="null")]),
    healthy=lambda: TwoRuns(made("a", seed=1), made("a", seed=1)),
)
