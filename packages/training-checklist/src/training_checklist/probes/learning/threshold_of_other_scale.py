from math import isclose

from torch import Tensor
from torch.nn import functional

from training_checklist.instruments import (
    Answered,
    Validated,
    answered_steps,
    is_metric,
    of_each,
)
from training_checklist.probe import CannotJudge, Fix, Hit, Hits, Limits, Probe

SAME = 1e-5  # relative: the same float32 numbers, added up in another order


@of_each(answered_steps, "no step could be taken with other answers")
def detect(answered: Answered, limits: Limits) -> Hits:
    if not answered.barely:
        raise CannotJudge("no criterion asks for yes or no")
    more, less = answered.barely.values()
    for name, best in answered.right.items():
        known = is_metric(name) and name in more and name in less
        if known and isclose(best, more[name], rel_tol=SAME) and not isclose(best, less[name], rel_tol=SAME):
            yield Hit(
                f"{name} takes right answers for wrong ones where their logit is 0.45, and not where it is 0.55: it "
                "compares logits with 0.5, which is a threshold of probabilities",
                answered.place.beside(function=answered.step, note=name),
            )


class Deciding(Validated):
    threshold, scale = 0.5, staticmethod(lambda answers: answers)

    def loss(self, answers: Tensor, labels: Tensor) -> Tensor:
        return functional.binary_cross_entropy_with_logits(answers[:, 0], (labels % 2).float())

    def validation_step(self, batch: list, batch_idx: int) -> None:
        answers, labels = self(batch[0]), batch[1]
        self.loss(answers, labels)
        self.log("val/acc", ((self.scale(answers[:, 0]) > self.threshold) == (labels % 2 == 1)).float().mean())


PROBE = Probe(
    question="Does the threshold of each binary metric fit what the metric gets (0.5 for probabilities, 0 for logits)?",
    why="logits are compared with a threshold for probabilities: an answer of 50 % to 62 % counts as no",
    detect=detect,
    fix=Fix("compare logits with 0, or torch.sigmoid(logits) with 0.5"),
    faulty=Deciding,
    healthy=type("OfLogits", (Deciding,), {"threshold": 0.0}),
    also_healthy=(type("Precise", (Deciding,), {"threshold": 0.6, "scale": staticmethod(Tensor.sigmoid)}),),
)
