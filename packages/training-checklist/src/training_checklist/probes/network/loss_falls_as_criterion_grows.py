from torch import Tensor
from torch.nn import functional

from training_checklist.instruments import Losses, Small, Step
from training_checklist.probe import CannotJudge, Fix, Hit, Hits, Limits, Probe


def detect(step: Step, limits: Limits) -> Hits:
    if len(step.trainer.optimizers) > 1:
        raise CannotJudge("several optimizers may play against each other")
    for loss in step.heard().of_criteria():
        # What holds two answers against each other may keep them apart.
        known = [each for each in loss.slopes if not each.of_answers]
        if known and all(each.slope < 0 for each in known) and not all(each.of_fixed for each in known):
            first = known[0]
            values = f"{loss.loss:.4g} where {first.name} is {first.value:.4g}"
            yield Hit(f"the loss of training_step is {values}: it falls as {first.name} grows", first.place)


def apart(answers: Tensor, labels: Tensor) -> Tensor:
    """Take the answers for two heads, whose likelihood is written by hand, and which are to differ."""
    error = (answers[:, :1] - labels[:, None]).square() + (answers[:, 1:2] - labels[:, None]).square()
    return error.mean() - 0.1 * functional.mse_loss(answers[:, :1], answers[:, 1:2])


class Attacking(Small):
    """Makes the answers of a network that does not learn worse, as an adversarial perturbation does."""

    def __init__(self) -> None:
        super().__init__()
        self.head.requires_grad_(False)

    def loss(self, answers: Tensor, labels: Tensor) -> Tensor:
        return -super().loss(answers, labels)


PROBE = Probe(
    question="Does the loss that training_step returns grow when the criterion grows (no minus sign in front of it)?",
    why="training makes the criterion worse, and the loss falls without bound",
    fix=Fix("remove the minus sign"),
    listener=Losses,
    detect=detect,
    faulty=lambda answers, labels: -functional.cross_entropy(answers, labels),
    healthy=lambda answers, labels: functional.cross_entropy(answers, labels),
    also_healthy=(apart, Attacking),
)
