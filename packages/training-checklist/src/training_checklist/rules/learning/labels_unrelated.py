from collections.abc import Iterator
from typing import Any

from training_checklist.evidence.learning import Course, Labels
from training_checklist.finding import FAILED, WARNING, Fix, Place
from training_checklist.rule import CannotJudge, Hit, Rule, Threshold


def judge(labels: Labels, limits: Any) -> Iterator[Hit]:
    if labels.untold:
        raise CannotJudge(labels.untold)
    if labels.known < limits.min_known and not labels.learnt and labels.unseen < limits.max_unseen:
        raise CannotJudge(
            f"the loss on {labels.batches} batches did not fall to half, of its first and that for exchanged labels, "
            f"in steps or time: {labels.course}"
        )
    # Where exchanging says nothing about what was learnt, it says nothing about the rest.
    if labels.known >= limits.min_known and labels.unseen < limits.max_unseen:
        by_heart = "by heart" if labels.learnt else f"in part ({labels.known:.1f} standard deviations)"
        yield Hit(
            f"the network learns {labels.batches} batches {by_heart}, loss {labels.course}, but on samples that it has "
            f"not seen it does as well with exchanged labels ({labels.unseen:.1f} standard deviations), and no better "
            "than one answer for all",
            Place(loader="train_dataloader", note="labels"),
            severity=None if labels.learnt else WARNING,  # so weak a tie would take more samples to be seen
        )


RULE = Rule(
    id="learning/labels-unrelated",
    item="learning",
    question="Do the labels depend on the inputs, so that right ones are learned faster than shuffled ones?",
    why="what is learnt of some samples says nothing about the labels of others: a network fed zeros would be as good",
    severity=FAILED,
    evidence=Labels,
    judge=judge,
    fix=Fix("look at inputs beside their labels", items=("limit_batches",)),
    faulty=lambda: Labels(Course(2.3, 0.3, 0.9, 240), 8, known=90.0, unseen=0.3, learnt=True),
    healthy=lambda: Labels(Course(2.3, 0.3, 0.9, 240), 8, known=90.0, unseen=9.0, learnt=True),
    thresholds={
        "min_known": Threshold(
            4.0, "standard deviations; by chance less than once in 2,000 (Student's t of 20 exchanges)"
        ),
        "max_unseen": Threshold(
            2.0, "standard deviations, below which chance stays in 97 of 100 cases (Student's t of 20 exchanges)"
        ),
    },
)
