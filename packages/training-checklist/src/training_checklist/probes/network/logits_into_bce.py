from torch.nn import functional

from training_checklist.instruments import STEPS, Step, criterion_inputs
from training_checklist.probe import Fix, Hit, Hits, Limits, Probe


def detect(step: Step, limits: Limits) -> Hits:
    for given in criterion_inputs(step):
        if given.name == "binary_cross_entropy" and (given.low < 0 or given.high > 1):
            yield Hit(f"binary_cross_entropy gets {given.range}, no probabilities", given.place)


PROBE = Probe(
    question="Does BCELoss get probabilities, from 0 to 1?",
    why="it takes the logarithm of its input and of 1 minus it",
    fix=Fix("use BCEWithLogitsLoss, which takes logits"),
    detect=detect,
    steps=STEPS,
    faulty=lambda answers, labels: functional.binary_cross_entropy(answers[:, 0], (labels == 0).float()),
    healthy=lambda answers, labels: functional.binary_cross_entropy(answers[:, 0].sigmoid(), (labels == 0).float()),
    also_faulty=(
        lambda answers, labels: functional.binary_cross_entropy(answers[:, 0].exp() + 1, (labels == 0).float()),
    ),
    also_healthy=(functional.cross_entropy,),
)
