from torch.nn import functional

from training_checklist.instruments import Step, criterion_inputs
from training_checklist.probe import WARNING, Fix, Hit, Hits, Limits, Probe


def detect(step: Step, limits: Limits) -> Hits:
    for given in criterion_inputs(step):
        if given.dropped is not None:
            what = f"{given.name} gets what dropout returns: {given.zeros:.0%} of the answers are exactly 0"
            yield Hit(what, given.dropped)


PROBE = Probe(
    question="Does the criterion get the outputs of the last layer without a dropout in between?",
    why="an output that is dropped is 0 whatever the input, and has no gradient; the others are scaled up",
    severity=WARNING,
    fix=Fix("put the dropout before the last layer"),
    detect=detect,
    faulty=lambda answers, labels: functional.cross_entropy(functional.dropout(answers, 0.3), labels),
    healthy=lambda answers, labels: functional.cross_entropy(functional.dropout(answers, 0.3, training=False), labels),
)
