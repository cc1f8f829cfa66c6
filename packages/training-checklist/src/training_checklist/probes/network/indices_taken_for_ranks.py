from torch import Tensor
from torch.nn import functional
from torch.utils.weak import WeakTensorKeyDictionary

from training_checklist.instruments import Call, Step, StepListener
from training_checklist.probe import Fix, Hit, Hits, Limits, Place, Probe

# What keeps a number a position: one more than it is as well, and it in another form.
SAME = {"add", "sub", "rsub", "float", "double", "to", "type_as", "detach", "clone", "view", "reshape", "unsqueeze"}
# What a rank is put into (discounts of a ranking, correlations of ranks), and an index of a sample never.
OF_RANKS = {"log", "log2", "log1p", "log10", "reciprocal", "rsqrt", "sqrt", "pow", "rdiv", "mean", "std", "var", "cov"}


class Positions(StepListener):
    """Follows what argsort has returned to where it is computed with."""

    def __init__(self, step: Step) -> None:
        super().__init__(step)
        self.sorted = WeakTensorKeyDictionary()  # what is made of it: where it was sorted
        self.taken: dict[int, Place] = {}  # by the place of argsort

    def after(self, call: Call) -> None:
        name = call.name.strip("_").replace("rtruediv", "rdiv").replace("radd", "add")
        origin = next((self.sorted[each] for each in call.given if each in self.sorted), None)
        if name == "argsort" and origin is None:  # of its own result, it returns ranks
            self._keep(call, call.place)
        elif origin is not None and name in SAME:
            self._keep(call, origin)
        elif origin is not None and name in OF_RANKS:
            self.taken[origin.line] = origin

    def _keep(self, call: Call, origin: Place) -> None:
        for each in call.made:
            self.sorted[each] = origin


def detect(step: Step, limits: Limits) -> Hits:
    for place in step.heard().taken.values():
        yield Hit("what argsort returns is computed with, as if it were the rank of each entry", place)


def by_rank(answers: Tensor, labels: Tensor, ranks: Tensor) -> Tensor:
    weights = 1 / (ranks + 2.0).log2()
    return (weights * functional.cross_entropy(answers, labels, reduction="none")).mean()


def scores(answers: Tensor, labels: Tensor) -> Tensor:
    return answers.detach().gather(1, labels[:, None])[:, 0]


PROBE = Probe(
    question="Is a rank made by argsort twice, and not the result of the first?",
    why="argsort returns the indices of the entries in their order, and not the place that each entry has in it",
    fix=Fix("x.argsort().argsort(): the second sorts the indices, which gives each entry its place"),
    listener=Positions,
    detect=detect,
    faulty=lambda answers, labels: by_rank(answers, labels, scores(answers, labels).argsort()),
    healthy=lambda answers, labels: by_rank(answers, labels, scores(answers, labels).argsort().argsort()),
)
