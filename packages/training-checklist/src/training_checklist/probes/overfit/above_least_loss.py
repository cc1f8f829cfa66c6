from torch import Tensor

from training_checklist.instruments import OneBatch, Small, is_explained, trained_with
from training_checklist.probe import WARNING, CannotJudge, Fix, Hit, Hits, Limits, Probe


def detect(batch: OneBatch, limits: Limits) -> Hits:
    if not batch.memorised and batch.goal is None:
        raise CannotJudge("the loss is of no classification, so that its least value is not known")
    if batch.accuracy == 1.0 and batch.course == "stalled" and not batch.memorised and not is_explained(batch):
        yield Hit(f"every answer is right, and the loss stalled above {batch.goal:.3g}: {batch.standing}")


class Bounded(Small):
    largest = 1.0  # of a logit

    def forward(self, inputs: Tensor) -> Tensor:
        return self.largest * super().forward(inputs).tanh()


PROBE = Probe(
    question="Does the loss on a memorised batch come down to the least value that it can have?",
    why="the loss is this criterion and nothing else, and the network cannot be as sure as it wants: logits may be "
    "bounded (a softmax, a tanh, a cosine without a temperature)",
    severity=WARNING,
    fix=Fix(
        "the item looks at what the criterion is given; if it is meant, set checks.overfit.max_loss", items=("trace",)
    ),
    detect=detect,
    faulty=trained_with(module=Bounded),
    healthy=trained_with(module=type("Sharp", (Bounded,), {"largest": 20.0})),
    symptom=True,
)
