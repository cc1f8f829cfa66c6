from collections.abc import Iterator
from typing import Any

from training_checklist.evidence.labels import SameInputs
from training_checklist.finding import FAILED, Fix
from training_checklist.rule import CannotJudge, Hit, Rule, Threshold


def judge(same: SameInputs, limits: Any) -> Iterator[Hit]:
    if same.repeatable:
        raise CannotJudge("two samples of such data may well be equal by chance")
    if same.contradicting > limits.max_contradicting * same.samples:
        yield Hit(
            f"{same.contradicting} of {same.samples} samples of {same.place.loader} have the same input as another one "
            f"and another target: {same.distinct} different inputs, item {same.pair[0]} is item {same.pair[1]}",
            same.place.beside(sample=same.pair[0]),
        )


RULE = Rule(
    id="data/same-input-other-target",
    item="limit_batches",
    question="Do equal inputs have equal targets?",
    why="no network can give two answers to one input: inputs and targets are read from different positions, or what "
    "tells samples apart is lost on the way",
    severity=FAILED,
    evidence=SameInputs,
    judge=judge,
    fix=Fix("look at how the dataset makes a position of an index, for the input and for the target"),
    faulty=lambda: SameInputs(160, contradicting=120, distinct=20, repeatable=False),
    healthy=lambda: SameInputs(160, contradicting=0, distinct=80, repeatable=False),
    thresholds={
        "max_contradicting": Threshold(
            0.033,
            "share of samples; labels of ten well-known test sets are wrong in 3.3 % on average (Northcutt et al. "
            "2021), so that duplicates contradict one another no more often",
        )
    },
)
