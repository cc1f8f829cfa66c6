from dataclasses import replace

from torch.utils.data import DataLoader
from torchmetrics.classification import BinaryAUROC

from training_checklist.instruments import (
    Example,
    RankedScores,
    RankingMetrics,
    Validated,
    of_each,
    samples,
    several_steps,
)
from training_checklist.probe import Fix, Hit, Hits, Limits, Probe, Threshold


@of_each(lambda run: run.heard().scores.values(), "no metric ranks samples by their scores")
def detect(scores: RankedScores, limits: Limits) -> Hits:
    # One value alone is what a network gives that answers the same to all.
    if scores.distinct == 2 and scores.samples >= limits.min_ranked:
        yield Hit(
            f"{scores.path} ranks samples by their scores, and is given answers: two different values for "
            f"{scores.samples} samples",
            scores.place.beside(module=f"{scores.path} ({scores.type})"),
        )


class Ranked(Validated):
    ranks = False

    def __init__(self) -> None:
        super().__init__()
        self.area = BinaryAUROC()

    def validation_step(self, batch: list, batch_idx: int) -> None:
        scores = self(batch[0])[:, 0]
        self.area.update(scores if self.ranks else (scores > 0).float(), batch[1] % 2)
        self.log("val/auroc", self.area)


def few(number: int) -> Example:
    return replace(several_steps(Ranked), held_out=lambda: DataLoader(samples()[:number], 4))


PROBE = Probe(
    question="Do AUROC and average precision get scores, and not predicted classes?",
    why="a curve is made by moving the threshold over all scores; of answers that a threshold or argmax has made, it "
    "has one point, and its area is another number",
    listener=RankingMetrics,
    detect=detect,
    fix=Fix("give it the probabilities, or the logits, before they are compared with a threshold"),
    thresholds={"min_ranked": Threshold(32, "samples: of fewer, scores may be two by chance", healthy=few(8))},
    faulty=Ranked,
    healthy=type("Scores", (Ranked,), {"ranks": True}),
)
