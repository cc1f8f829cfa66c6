from collections.abc import Iterator
from math import isclose
from typing import Any

from training_checklist.evidence.answers import SAME, Answered, is_metric
from training_checklist.finding import FAILED, Fix
from training_checklist.rule import CannotJudge, Hit, Rule


def judge(answered: Answered, limits: Any) -> Iterator[Hit]:
    if not answered.barely:
        raise CannotJudge("no criterion asks for yes or no")
    more, less = answered.barely.values()
    for name, best in answered.right.items():
        known = is_metric(name) and name in more and name in less
        if known and isclose(best, more[name], rel_tol=SAME) and not isclose(best, less[name], rel_tol=SAME):
            yield Hit(
                f"{name} takes right answers for wrong ones where their logit is 0.4, and not where it is 0.6: it "
                "compares logits with 0.5, which is a threshold of probabilities",
                answered.place.beside(function=answered.step, note=name),
            )


RULE = Rule(
    id="learning/threshold-of-other-scale",
    item="learning",
    question="Is the threshold of each binary metric on the scale of what it gets (0.5 for probabilities)?",
    why="logits are compared with a threshold of probabilities: answers between even odds and 62% count as no",
    severity=FAILED,
    evidence=Answered,
    judge=judge,
    fix=Fix("compare logits with 0, or torch.sigmoid(logits) with 0.5"),
    faulty=lambda: Answered(
        "validation_step",
        {"val/acc": 1.0},
        barely={0.6: {"val/acc": 1.0}, 0.4: {"val/acc": 0.7}},
    ),
    healthy=lambda: Answered(
        "validation_step",
        {"val/acc": 1.0},
        barely={0.6: {"val/acc": 1.0}, 0.4: {"val/acc": 1.0}},
    ),
)
