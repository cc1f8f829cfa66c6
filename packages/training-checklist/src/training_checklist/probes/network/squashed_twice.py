from typing import Any

from torch import Tensor
from torch.nn import functional

from training_checklist.instruments import STEPS, VIEWS, Call, StepListener, operation
from training_checklist.probe import Fix, Probe

TAKES_LOGITS = {"logsigmoid", "log_sigmoid", "log_softmax", "softplus", "binary_cross_entropy_with_logits"}
SQUASHES = {"Sigmoid": "sigmoid", "Softmax": "softmax"}
KEEPS_UNITS = {*VIEWS, "Sub", "Neg", "Cat", "Stack"}  # differences of probabilities are no logits either


class Squashes(StepListener):
    def after(self, call: Call) -> None:
        name = call.name.strip("_")
        if name in TAKES_LOGITS and call.given and isinstance(call.result, Tensor):
            squash = squashed_by(call.given[0].grad_fn)
            if squash:
                self.keep(call, f"{name} takes any number, and is given what a {squash} has put between 0 and 1")


def squashed_by(node: Any) -> str:
    """Return "sigmoid" where all that leads to a node comes out of one, "" where anything else does."""
    if node is None:
        return ""
    if operation(node) in SQUASHES:
        return SQUASHES[operation(node)]
    if operation(node) not in KEEPS_UNITS:
        return ""
    found = {squashed_by(origin) for origin, _ in node.next_functions if origin is not None}
    return found.pop() if len(found) == 1 else ""


def loss(answers: Tensor, labels: Tensor) -> Tensor:
    return functional.binary_cross_entropy_with_logits(answers, functional.one_hot(labels, 4).float())


PROBE = Probe(
    question="Do BCEWithLogitsLoss, logsigmoid, log_softmax and softplus get logits, and not the output of a sigmoid "
    "or softmax?",
    why="they have a sigmoid or softmax of their own: of a number between 0 and 1 it makes nothing below 0.5 or above "
    "0.73, so that the loss treats no answer as sure, and gradients are small",
    fix=Fix("remove the sigmoid or softmax in front: the loss has its own"),
    aliases=("network/probabilities-into-bce-with-logits",),
    listener=Squashes,
    steps=STEPS,
    faulty=lambda answers, labels: loss(answers.sigmoid(), labels),
    healthy=lambda answers, labels: loss(answers, labels),
)
