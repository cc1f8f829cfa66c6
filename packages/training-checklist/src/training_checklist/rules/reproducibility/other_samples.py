from collections.abc import Iterator
from typing import Any

from training_checklist.evidence.repetition import TwoRuns, made
from training_checklist.finding import FAILED, Fix, Place
from training_checklist.rule import Hit, Rule

LOADERS = {"batch": "train_dataloader", "validation batch": "val_dataloader"}
ITERABLE = (
    "the data come in another order, or with other values: by a generator that has no seed, "
    "the order of a set or of files, or workers that race"
)


def judge(runs: TwoRuns, limits: Any) -> Iterator[Hit]:
    loader = LOADERS.get(runs.kind())
    if loader is None or runs.one.seed != runs.two.seed or runs.drawn_alike(loader):
        return
    row = runs.parted[0]
    drawn = runs.drawn_alike(loader) is False
    place, why = runs.at(
        Place(loader=loader, batch=row.step, note=", ".join(runs.one.generators)), RULE.why if drawn else ITERABLE
    )
    yield Hit(
        f"two runs with one seed get other batches, first {row.name} of step {row.step}: {runs.numbers()}"
        + ("; their samplers draw other positions" if drawn else "; the data are iterable"),
        place,
        why,
    )


RULE = Rule(
    id="reproducibility/other-samples",
    item="reproducibility",
    question="Do two runs with one seed read the same samples in the same order?",
    why="a sampler or shuffle draws from a generator that has no seed, or cuts up the order of a set",
    severity=FAILED,
    evidence=TwoRuns,
    judge=judge,
    fix=Fix("generator=torch.Generator().manual_seed(cfg.seed) for the loader; sort what is listed"),
    faulty=lambda: TwoRuns(
        made("a", kind="batch", drawn={"train_dataloader": ["1"]}),
        made("b", kind="batch", drawn={"train_dataloader": ["2"]}),
    ),
    healthy=lambda: TwoRuns(made("a", kind="batch"), made("a", kind="batch")),
)
