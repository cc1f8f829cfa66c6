from collections.abc import Iterator
from typing import Any

from training_checklist.evidence.epochs import RankedScores
from training_checklist.finding import WARNING, Fix
from training_checklist.rule import Hit, Rule


def judge(scores: RankedScores, limits: Any) -> Iterator[Hit]:
    if scores.beyond and scores.within:
        yield Hit(
            f"{scores.path} is given scores below 0 or above 1 in {scores.beyond} batches, of which it takes the "
            f"sigmoid or softmax, and none such in {scores.within} others, which it leaves as they are",
            scores.place.beside(module=f"{scores.path} ({scores.type})"),
        )
    elif scores.beyond and scores.lowest == 0:
        yield Hit(
            f"{scores.path} is given scores above 1 and none below 0, which are no logits and no probabilities: it "
            f"takes their sigmoid or softmax in each batch that has one above 1, and in no other",
            scores.place.beside(module=f"{scores.path} ({scores.type})"),
        )


RULE = Rule(
    id="learning/scores-of-two-scales",
    item="learning",
    question="Are the scores that an AUROC or average precision gets all probabilities, or all logits?",
    why="torchmetrics takes scores for logits, batch by batch, wherever one of them is below 0 or above 1: what is "
    "ranked together then stands on two scales",
    severity=WARNING,
    evidence=RankedScores,
    judge=judge,
    fix=Fix("give it probabilities: logits.sigmoid(), or scores / (1 + scores) of scores without an upper end"),
    faulty=lambda: RankedScores("val_auroc", "BinaryAUROC", 64, 64, beyond=2, within=6),
    healthy=lambda: RankedScores("val_auroc", "BinaryAUROC", 64, 64, beyond=8, lowest=-3.0),
)
