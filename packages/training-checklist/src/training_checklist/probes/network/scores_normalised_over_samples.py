from torch.nn import functional

from training_checklist.instruments import SUM, Step, by, criterion_inputs
from training_checklist.probe import Fix, Hit, Hits, Limits, Probe

NORMALISED = ("cross_entropy", "nll_loss", "kl_div")


def detect(step: Step, limits: Limits) -> Hits:
    for given in criterion_inputs(step):
        made = given.made_by in ("Softmax", "LogSoftmax")  # of which network/softmax-over-samples tells
        if given.name not in NORMALISED or made or given.normalised(1, limits.probability_sum):
            continue
        over_samples = given.over_samples(limits.probability_sum)
        if over_samples:
            yield Hit(
                f"{given.name} gets {over_samples} over dim 0: the columns of {by(given.shape)} sum to 1, and the rows "
                "do not",
                given.place,
            )


PROBE = Probe(
    question="Do the scores that the criterion gets sum to 1 over the classes, and not over the samples of the batch?",
    why="each sample's scores depend on the other samples of its batch",
    fix=Fix("divide by the sum over dim=1"),
    thresholds={"probability_sum": SUM},
    detect=detect,
    faulty=lambda answers, labels: functional.cross_entropy(1.005 * answers.exp() / answers.exp().sum(0), labels),
    healthy=lambda answers, labels: functional.cross_entropy(1.02 * answers.exp() / answers.exp().sum(0), labels),
)
