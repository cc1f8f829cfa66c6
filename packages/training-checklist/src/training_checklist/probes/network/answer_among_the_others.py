import torch
from torch import Tensor
from torch.nn import functional

from training_checklist.instruments import CriterionCall, Step
from training_checklist.probe import CannotJudge, Fix, Hit, Hits, Limits, Probe, Threshold

ROUNDING = 1e-5  # of a sample's logits: one number that was computed in two ways


def detect(step: Step, limits: Limits) -> Hits:
    calls = [call for call in step.learned if is_choice(call, limits.samples)]
    if not calls:
        raise CannotJudge(f"no cross_entropy has a class for each of {limits.samples} samples or more")
    for call in calls:
        logits, labels = call.input.detach().double(), call.target[:, None]
        near = ROUNDING * logits.abs().median(1, keepdim=True).values  # what is masked is huge
        equal = (logits - logits.gather(1, labels)).abs() <= near
        twins = equal.sum(1) - 1
        if bool((twins > 0).all()) and bool((twins < limits.max_twins * logits.shape[1]).all()):
            yield Hit(
                f"in each of {len(logits)} samples, the logit of the right class stands in the logits a second time, "
                "as that of a wrong one",
                call.place,
                fix=Fix("compare with the queue before the new keys enter it, or leave them out of the negatives"),
            )
        elif are_its_own(logits, labels, near):
            yield Hit(
                f"each of {len(logits)} samples is compared with itself: the logits on the diagonal are all "
                f"{logits[0, 0]:.4g}, the highest of their rows, and the right class is another",
                call.place,
            )


def is_choice(call: CriterionCall, samples: int) -> bool:
    """Whether a criterion is given logits, (N, C), and the index of one class for each sample."""
    shape = call.input.shape
    return (
        call.num_classes is not None
        and len(shape) == 2
        and shape[0] >= samples
        and bool(call.input.isfinite().all())
        and bool(((call.target >= 0) & (call.target < shape[1])).all())
    )


def are_its_own(logits: Tensor, labels: Tensor, near: Tensor) -> bool:
    """Whether the diagonal of logits, (N, N), is one number and the highest of each row, and no label's."""
    if logits.shape[0] != logits.shape[1] or bool((labels.flatten() == torch.arange(len(labels)).to(labels)).any()):
        return False
    own = logits.diagonal()[:, None]
    highest = (logits <= own + near).all() and (logits < own - near).sum(1).gt(0).all()
    return bool(highest) and bool(((own - own[0]).abs() <= near).all())


def twice(answers: Tensor, labels: Tensor) -> Tensor:
    return functional.cross_entropy(torch.cat([answers, answers.gather(1, labels[:, None])], 1), labels)


def with_itself(mask: bool):
    """Make a loss by which each sample is to find the next one, among all of the batch or all others."""

    def loss(answers: Tensor, labels: Tensor) -> Tensor:
        vectors = functional.normalize(answers, dim=1)
        alike = vectors @ vectors.T / 0.1
        if mask:
            alike = alike.masked_fill(torch.eye(len(alike), dtype=torch.bool), -1e9)
        return functional.cross_entropy(alike, torch.arange(len(alike)).roll(1))

    return loss


PROBE = Probe(
    question="Is what a sample is to be told from, by cross_entropy, another thing than itself and its right answer?",
    why="no network can prefer the right answer to the same thing under another name: the loss has a floor",
    fix=Fix("leave it out: logits.masked_fill(torch.eye(len(logits), dtype=torch.bool), -torch.inf)"),
    detect=detect,
    thresholds={
        "samples": Threshold(
            4,
            "samples, each of which has it; one or two logits may be equal by chance, where a layer answers in steps",
            factor=1.5,
            faulty=lambda answers, labels: twice(answers[:5], labels[:5]),
            healthy=lambda answers, labels: twice(answers[:3], labels[:3]),
        ),
        "max_twins": Threshold(
            0.25,
            "of the classes; a network that has just begun may answer the same for most of them",
            factor=2.0,
            faulty=lambda answers, labels: twice(answers[:, :4], labels % 4),
            healthy=lambda answers, labels: twice(answers[:, :2], labels % 2),
        ),
    },
    faulty=twice,
    healthy=functional.cross_entropy,
    also_faulty=(with_itself(mask=False),),
    also_healthy=(with_itself(mask=True),),
)
