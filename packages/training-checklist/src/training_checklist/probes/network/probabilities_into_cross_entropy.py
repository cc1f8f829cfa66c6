from collections.abc import Iterator
from typing import Any

from torch.nn import functional

from training_checklist.finding import FAILED, Fix
from training_checklist.lab.criterion_inputs import SUM, criterion_inputs
from training_checklist.lab.step import STEPS, Step
from training_checklist.probe import Probe
from training_checklist.rule import Hit


def detect(step: Step, limits: Any) -> Iterator[Hit]:
    for given in criterion_inputs(step):
        if given.name != "cross_entropy" or len(given.shape) < 2 or given.shape[1] == 1:
            continue
        sums = given.normalised(1, limits.probability_sum) == "probabilities"
        if sums or given.made_by == "Sigmoid":
            made = "each row sums to 1" if sums else "the output of a sigmoid"
            yield Hit(f"cross_entropy gets probabilities and not logits: {given.range}, {made}", given.place)


PROBE = Probe(
    id="network/probabilities-into-cross-entropy",
    item="trace",
    question="Does cross_entropy get logits, and not the output of a softmax or sigmoid?",
    why="it applies a softmax of its own: the loss cannot fall below that of a hesitant answer, and gradients fade",
    severity=FAILED,
    fix=Fix("remove the softmax (or sigmoid) from the network, or use NLLLoss on log_softmax"),
    thresholds={"probability_sum": SUM},
    detect=detect,
    steps=STEPS,
    faulty=lambda answers, labels: functional.cross_entropy(answers.softmax(1) * 1.005, labels),
    healthy=lambda answers, labels: functional.cross_entropy(answers.softmax(1) * 1.02, labels),
)
