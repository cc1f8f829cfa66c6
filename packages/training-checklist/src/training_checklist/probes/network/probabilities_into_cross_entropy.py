from torch.nn import functional

from training_checklist.instruments import STEPS, SUM, Step, criterion_inputs
from training_checklist.probe import Fix, Hit, Hits, Limits, Probe


def detect(step: Step, limits: Limits) -> Hits:
    for given in criterion_inputs(step):
        if given.name != "cross_entropy" or len(given.shape) < 2 or given.shape[1] == 1:
            continue
        sums = given.normalised(1, limits.probability_sum) == "probabilities"
        if sums or given.made_by == "Sigmoid":
            made = "each row sums to 1" if sums else "the output of a sigmoid"
            yield Hit(f"cross_entropy gets probabilities and not logits: {given.range}, {made}", given.place)


PROBE = Probe(
    question="Does cross_entropy get logits, and not the output of a softmax or sigmoid?",
    why="it applies a softmax of its own: the loss cannot fall below that of a hesitant answer, and gradients fade",
    fix=Fix("remove the softmax (or sigmoid) from the network, or use NLLLoss on log_softmax"),
    thresholds={"probability_sum": SUM},
    detect=detect,
    steps=STEPS,
    faulty=lambda answers, labels: functional.cross_entropy(answers.softmax(1) * 1.005, labels),
    healthy=lambda answers, labels: functional.cross_entropy(answers.softmax(1) * 1.02, labels),
)
