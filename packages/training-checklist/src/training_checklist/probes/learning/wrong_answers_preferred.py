from torch import Tensor

from training_checklist.instruments import Answered, Small, answered_steps, of_each
from training_checklist.probe import CannotJudge, Fix, Hit, Hits, Limits, Probe, Threshold


@of_each(answered_steps, "no step could be taken with other answers")
def detect(answered: Answered, limits: Limits) -> Hits:
    if answered.loss is None:
        raise CannotJudge(f"{answered.step} returns no loss")
    right, wrong = answered.loss
    if right > wrong + limits.more * max(abs(right), abs(wrong)):
        yield Hit(
            f"the loss of {answered.step} is {right:.4g} where each answer is right, and {wrong:.4g} where each is "
            "wrong",
            answered.place.beside(function=answered.step),
        )


def subtracted(share: float) -> type[Small]:
    class Subtracted(Small):
        def loss(self, answers: Tensor, labels: Tensor) -> Tensor:
            return 1 - share * super().loss(answers, labels)

    return Subtracted


PROBE = Probe(
    question="Is the loss lower for right predictions than for wrong ones?",
    why="training leads away from what the targets ask for",
    detect=detect,
    fix=Fix("look at the sign of each part of the loss: what grows as answers become right is subtracted"),
    thresholds={"more": Threshold(1e-4, "relative: the same float32 numbers, added up in another order")},
    faulty=subtracted(5e-6),
    healthy=subtracted(2e-6),
)
