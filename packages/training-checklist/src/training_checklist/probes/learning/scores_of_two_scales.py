from torchmetrics.classification import BinaryAUROC

from training_checklist.instruments import RankedScores, RankingMetrics, Validated, of_each
from training_checklist.probe import REMARK, WARNING, Fix, Hit, Hits, Limits, Probe


@of_each(lambda run: run.heard().scores.values(), "no metric ranks samples by their scores")
def detect(scores: RankedScores, limits: Limits) -> Hits:
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
            # A sigmoid of all of them leaves their order as it is.
            severity=None if scores.tied else REMARK,
        )


class Ranked(Validated):
    both = True

    def __init__(self) -> None:
        super().__init__()
        self.area = BinaryAUROC()

    def validation_step(self, batch: list, batch_idx: int) -> None:
        scores = self(batch[0])[:, 0]
        self.area.update(scores.sigmoid() if self.both and batch_idx else scores, batch[1] % 2)
        self.log("val/auroc", self.area)


class Errors(Ranked):
    """Ranks by squared errors, of which many are so large that their sigmoid is 1."""

    def validation_step(self, batch: list, batch_idx: int) -> None:
        self.area.update(30 * batch[0].square().sum(1), batch[1] % 2)
        self.log("val/auroc", self.area)


PROBE = Probe(
    question="Are the scores that an AUROC or average precision gets all probabilities, or all logits?",
    why="torchmetrics takes scores for logits, batch by batch, wherever one of them is below 0 or above 1: what is "
    "ranked together then stands on two scales",
    severity=WARNING,
    listener=RankingMetrics,
    detect=detect,
    fix=Fix("give it probabilities: logits.sigmoid(), or scores / (1 + scores) of scores without an upper end"),
    faulty=Ranked,
    also_faulty=(Errors,),
    healthy=type("Logits", (Ranked,), {"both": False}),
)
