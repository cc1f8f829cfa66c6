from typing import Any

from torch.nn import functional

from training_checklist.instruments import STEPS, Step, criterion_inputs
from training_checklist.probe import Fix, Hit, Hits, Limits, Probe


def detect(step: Step, limits: Limits) -> Hits:
    for given in criterion_inputs(step):
        if given.name == "binary_cross_entropy_with_logits" and given.made_by in ("Sigmoid", "Softmax"):
            what = f"{given.name} gets probabilities: {given.range}, the output of a {given.made_by.lower()}"
            yield Hit(what, given.place)


def loss(answers: Any, labels: Any) -> Any:
    return functional.binary_cross_entropy_with_logits(answers, functional.one_hot(labels, 4).float())


PROBE = Probe(
    question="Does BCEWithLogitsLoss get logits, and not the output of a sigmoid or softmax?",
    why="it applies a sigmoid of its own: no probability below 0.5 or above 0.73 can come out",
    fix=Fix("remove the sigmoid or softmax from the network"),
    detect=detect,
    steps=STEPS,
    faulty=lambda answers, labels: loss(answers.sigmoid(), labels),
    healthy=lambda answers, labels: loss(answers, labels),
)
