from torch.nn import functional

from training_checklist.instruments import STEPS, SUM, Step, criterion_inputs
from training_checklist.probe import Fix, Hit, Hits, Limits, Probe


def detect(step: Step, limits: Limits) -> Hits:
    for given in criterion_inputs(step):
        if given.name not in ("nll_loss", "kl_div") or len(given.shape) < (2 if given.name == "nll_loss" else 1):
            continue
        if given.over_samples(limits.probability_sum):  # that is another probe's
            continue
        dims = (1, -1)[-len(given.shape) :] if given.name == "kl_div" else (1,)  # one distribution has dim -1 alone
        got = next(filter(None, (given.normalised(dim, limits.probability_sum) for dim in dims)), "logits")
        # What a divergence of other shapes than (B, C) is over, nobody knows.
        unclear = given.name == "kl_div" and got == "logits" and len(given.shape) != 2
        if got != "log-probabilities" and not unclear:
            yield Hit(f"{given.name} gets {got} and not log-probabilities: {given.range}", given.place)


PROBE = Probe(
    question="Do nll_loss and kl_div get log-probabilities, as log_softmax returns them?",
    why="it only picks the score of the right class: the loss can fall without bound, and is no likelihood",
    fix=Fix("put log_softmax(dim=1) before it, and not softmax; or use CrossEntropyLoss"),
    thresholds={"probability_sum": SUM},
    detect=detect,
    steps=STEPS,
    faulty=lambda answers, labels: functional.nll_loss(answers.log_softmax(1) - 0.02, labels),
    healthy=lambda answers, labels: functional.nll_loss(answers.log_softmax(1) - 0.005, labels),
)
