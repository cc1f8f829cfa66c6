from collections.abc import Iterator
from typing import Any

from training_checklist.evidence.epochs import Validated
from training_checklist.finding import FAILED, Fix, Place
from training_checklist.rule import CannotJudge, Hit, Rule


def judge(seen: Validated, limits: Any) -> Iterator[Hit]:
    if len(seen.answers) < 2 or not all(seen.answers) or len(set(seen.batches)) > 1 or len(set(seen.weights)) < 2:
        raise CannotJudge("no module was seen to answer to one validation batch before and after further training")
    if all(answers == seen.answers[0] for answers in seen.answers):
        names = ", ".join(seen.answers[0])
        yield Hit(
            f"{names} answers to the first validation batch with the very same numbers after another epoch, in which "
            f"weights have changed",
            Place(module=names, function="validation_step"),
        )


RULE = Rule(
    id="learning/validated-network-stays",
    item="learning",
    question="Does the network that is validated change with training?",
    why="validation looks at weights that are not those in training: a copy, or an average that is never updated",
    severity=FAILED,
    evidence=Validated,
    judge=judge,
    fix=Fix("validate the network that is trained, or look at what updates the other one"),
    faulty=lambda: Validated([{"average": "a"}] * 2, ["batch"] * 2, ["w", "v"]),
    healthy=lambda: Validated([{"net": "a"}, {"net": "b"}], ["batch"] * 2, ["w", "v"]),
)
