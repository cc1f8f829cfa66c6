from torch.nn import functional

from training_checklist.instruments import Step, criterion_inputs
from training_checklist.probe import Fix, Hit, Hits, Limits, Probe

MADE = {"Relu": "a ReLU", "Threshold": "a threshold", "Hardtanh": "a hardtanh", "Tanh": "a tanh"}
CLAMPS = ("Clamp", "ClampMin")  # at any number: they cut logits where that is 0


def detect(step: Step, limits: Limits) -> Hits:
    for given in criterion_inputs(step):
        made = MADE.get(given.made_by)
        cut = given.made_by in CLAMPS and given.low == 0 and given.zeros > 0
        if given.name == "cross_entropy" and len(given.shape) > 1 and given.shape[1] > 1 and (made or cut):
            zeros = f", {given.zeros:.0%} of them exactly 0" if given.zeros else ""
            yield Hit(f"cross_entropy gets logits that {made or 'a clamp'} has cut: {given.range}{zeros}", given.place)


PROBE = Probe(
    question="Are the logits that cross_entropy gets unbounded, without a ReLU, tanh or clamp after the last layer?",
    why="after a ReLU no logit is negative, after a tanh none is beyond 1, so that the network cannot be sure of a "
    "class; logits that are clamped have no gradient",
    fix=Fix("remove the activation after the last layer"),
    detect=detect,
    faulty=lambda answers, labels: functional.cross_entropy(answers.relu(), labels),
    healthy=lambda answers, labels: functional.cross_entropy(functional.leaky_relu(answers), labels),
)
