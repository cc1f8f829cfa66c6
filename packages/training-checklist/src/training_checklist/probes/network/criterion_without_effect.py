from torch.nn import functional

from training_checklist.instruments import Losses, Step, compared_tensors
from training_checklist.probe import REMARK, CannotJudge, Fix, Hit, Hits, Limits, Probe


def detect(step: Step, limits: Limits) -> Hits:
    for loss in step.heard().of_criteria():
        if all(each.slope == 0 for each in loss.slopes):
            first = loss.slopes[0]
            what = f"{first.name} has no effect on the loss of training_step: its slope is exactly 0"
            # The weight of a term may be 0 on purpose, where others are left.
            yield Hit(what, first.place, severity=REMARK if compares_otherwise(step) else None)


def compares_otherwise(step: Step) -> bool:
    """Whether the loss compares answers with a part of the batch in other ways, too."""
    try:
        return any(tensor.belongs for tensor in compared_tensors(step))
    except CannotJudge:
        return False


PROBE = Probe(
    question="Does the loss that training_step returns change when the value of the criterion changes?",
    why="no weight learns from it, however long it trains",
    fix=Fix("look for a factor 0, .detach() or .data between the criterion and what training_step returns"),
    listener=Losses,
    detect=detect,
    faulty=lambda answers, labels: 0.0 * functional.cross_entropy(answers, labels) + answers.mean(),
    healthy=lambda answers, labels: 0.1 * functional.cross_entropy(answers, labels) + answers.mean(),
)
