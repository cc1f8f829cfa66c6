from collections.abc import Iterator
from typing import Any

from training_checklist.evidence.loading import Collated
from training_checklist.finding import FAILED, Fix
from training_checklist.rule import Hit, Rule


def judge(batch: Collated, limits: Any) -> Iterator[Hit]:
    for one, other, samples in batch.apart:
        yield Hit(
            f"{one} and {other} of a batch are in different orders: {samples} of {batch.samples} samples get the "
            f"{other} of another one",
            batch.place.beside(note=f"{one}, {other}"),
        )
    for leaf in batch.scrambled:
        yield Hit(
            f"{leaf} of a batch has the values of its samples in another arrangement, in all of {batch.samples}",
            batch.place.beside(note=leaf),
            "pixels or time steps that were neighbours are not: view and reshape read memory in order, and move no "
            "dimension",
            Fix("stack the samples as they are, or x.permute(...) by which dimensions move"),
        )


RULE = Rule(
    id="data/parts-of-other-samples",
    item="limit_batches",
    question="Does collate keep together what belongs to one sample?",
    why="inputs are learnt with what belongs to others, or as noise",
    severity=FAILED,
    evidence=Collated,
    judge=judge,
    fix=Fix("apply one order to all parts of the batch"),
    faulty=lambda: Collated(8, apart=[("batch['past']", "batch['target']", 6)]),
    healthy=lambda: Collated(8),
)
