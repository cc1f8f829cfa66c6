from torch.nn import functional
from torch.utils.weak import WeakTensorKeyDictionary

from training_checklist.instruments import STEPS, SUM, Call, Step, StepListener, criterion_inputs
from training_checklist.probe import Fix, Hit, Hits, Limits, Place, Probe

PROBABILITIES = {"softmax", "log_softmax"}
# As functions, methods and operators are named, without underscores.
WEIGHS = {"mul", "rmul", "add", "radd", "sub", "rsub", "neg", "pow", "exp", "log", "log1p", "div", "truediv", "clamp"}


class Weighed(StepListener):
    """Follows probabilities and their logarithms to criteria that are given a function of them.

    A focal loss weighs log-probabilities, and negative learning takes those of the other classes.
    """

    def __init__(self, step: Step) -> None:
        super().__init__(step)
        self.known, self.places = WeakTensorKeyDictionary(), set[Place]()

    def before(self, call: Call) -> None:
        if call.name in ("nll_loss", "kl_div") and call.given and call.given[0] in self.known:
            self.places.add(call.place)

    def after(self, call: Call) -> None:
        name = call.name.strip("_")
        of_them = name in WEIGHS and any(each in self.known for each in call.given)
        if name in PROBABILITIES or of_them:
            self.known.update((each, of_them) for each in call.made)


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
        weighed = got == "logits" and given.place in step.heard().places
        if got != "log-probabilities" and not unclear and not weighed:
            yield Hit(f"{given.name} gets {got} and not log-probabilities: {given.range}", given.place)


PROBE = Probe(
    question="Do nll_loss and kl_div get log-probabilities, as log_softmax returns them?",
    why="it only picks the score of the right class: the loss can fall without bound, and is no likelihood",
    fix=Fix("put log_softmax(dim=1) before it, and not softmax; or use CrossEntropyLoss"),
    thresholds={"probability_sum": SUM},
    listener=Weighed,
    detect=detect,
    steps=STEPS,
    faulty=lambda answers, labels: functional.nll_loss(answers - answers.logsumexp(1, True) - 0.02, labels),
    healthy=lambda answers, labels: functional.nll_loss(answers - answers.logsumexp(1, True) - 0.005, labels),
    also_healthy=(
        lambda answers, labels: functional.nll_loss((1 - answers.softmax(1)) ** 2 * answers.log_softmax(1), labels),
        lambda answers, labels: functional.nll_loss((1 - answers.softmax(1)).log(), (labels + 1) % 4),
    ),
)
