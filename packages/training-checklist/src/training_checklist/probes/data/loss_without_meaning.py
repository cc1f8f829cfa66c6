import math

from torch import Tensor

from training_checklist.instruments import Data, Validated, on_datasets
from training_checklist.probe import Fix, Hit, Hits, Limits, Place, Probe


def detect(data: Data, limits: Limits) -> Hits:
    reason = "the data have findings of their own" if data.findings else "the data show no reason"
    losses, place = data.seen.losses, Place(function="training_step")
    wrong = [index for index, loss in enumerate(losses) if not math.isfinite(loss)]
    if wrong:
        yield Hit(
            f"the loss is {losses[wrong[0]]} in {len(wrong)} of {len(losses)} batches",
            place.beside(batch=wrong[0]),
            f"after that step every weight is NaN; {reason}",
            Fix(items=("anomaly",)),
        )
    elif losses and not any(losses):
        yield Hit(f"the loss is exactly 0 in all {len(losses)} batches", place, f"nothing is learned; {reason}")


class Nothing(Validated):
    factor = 0.0

    def loss(self, answers: Tensor, labels: Tensor) -> Tensor:
        return self.factor * super().loss(answers, labels)


class Hardly(Nothing):
    factor = 1e-6


PROBE = Probe(
    question="Are the losses of the first batches finite, and not all exactly 0?",
    why="labels may be constant, or outputs and labels do not reach the criterion",
    fix=Fix(items=("trace",)),
    detect=detect,
    symptom=True,
    faulty=on_datasets(module=Nothing),
    healthy=on_datasets(module=Hardly),
)
