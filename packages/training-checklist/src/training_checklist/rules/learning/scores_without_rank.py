from collections.abc import Iterator
from typing import Any

from training_checklist.evidence.epochs import RankedScores
from training_checklist.finding import FAILED, Fix
from training_checklist.rule import Hit, Rule, Threshold


def judge(scores: RankedScores, limits: Any) -> Iterator[Hit]:
    # One value alone is what a network gives that answers the same to all.
    if scores.distinct == 2 and scores.samples >= limits.min_ranked:
        yield Hit(
            f"{scores.path} ranks samples by their scores, and is given answers: two different values for "
            f"{scores.samples} samples",
            scores.place.beside(module=f"{scores.path} ({scores.type})"),
        )


RULE = Rule(
    id="learning/scores-without-rank",
    item="learning",
    question="Do AUROC and average precision get scores, and not predicted classes?",
    why="a curve is made by moving the threshold over all scores; of answers that a threshold or argmax has made, it "
    "has one point, and its area is another number",
    severity=FAILED,
    evidence=RankedScores,
    judge=judge,
    fix=Fix("give it the probabilities, or the logits, before they are compared with a threshold"),
    faulty=lambda: RankedScores("val_auroc", "BinaryAUROC", 2, 64),
    healthy=lambda: RankedScores("val_auroc", "BinaryAUROC", 64, 64),
    thresholds={"min_ranked": Threshold(32, "samples: of fewer, scores may be two by chance")},
)
