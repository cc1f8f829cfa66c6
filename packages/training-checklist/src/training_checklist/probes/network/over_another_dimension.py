import torch
from torch import Tensor
from torch.nn import functional

from training_checklist.instruments import STEPS, Call, CriterionCall, Step, StepListener, by, same
from training_checklist.probe import Fix, Hit, Hits, Limits, Place, Probe

COMPARES = {"softmax", "log_softmax", "argmax"}


class OverDimensions(StepListener):
    """Keeps what is done over another dimension than 1, with the tensor: a criterion may get the same."""

    def __init__(self, step: Step) -> None:
        super().__init__(step)
        self.calls: list[tuple[Tensor, str, int, Place]] = []

    def after(self, call: Call) -> None:
        name, dim = call.name.strip("_"), call.argument("dim", 1)
        if name in COMPARES and call.given and isinstance(dim, int):
            tensor = call.given[0]
            if tensor.ndim > 1 and dim % tensor.ndim != 1:
                self.calls.append((tensor, name, dim % tensor.ndim, call.place))


def detect(step: Step, limits: Limits) -> Hits:
    found = {}
    for tensor, name, dim, place in step.heard().calls:
        for criterion in (each for each in step.criteria.calls if not finds_partners(each)):
            given = criterion.input
            same = given.shape == tensor.shape and given.stride() == tensor.stride()
            if same and criterion.num_classes is not None and given.data_ptr() == tensor.data_ptr():
                shape = by(tuple(tensor.shape))
                what = f"{name} is over dim {dim} of {shape}, in which {criterion.name} has the classes in dim 1"
                found[place.file, place.line] = Hit(what, place)
    yield from found.values()


def finds_partners(criterion: CriterionCall) -> bool:
    """Whether each sample is to find its own partner among all: each dimension asks for that of the other."""
    own = torch.arange(len(criterion.input)) if criterion.input.ndim == 2 else None
    return own is not None and len(own) == criterion.input.shape[1] and same(criterion.target.cpu(), own)


def accuracy(answers: Tensor, labels: Tensor, dim: int) -> Tensor:
    """Return the loss of 4 samples with 4 classes at 4 positions, and look at the right answers."""
    answers, labels = answers.view(4, 4, 4), labels.view(4, 4)
    (answers.argmax(dim) == labels).float().mean()
    return functional.cross_entropy(answers, labels)


def both_ways(answers: Tensor, labels: Tensor) -> Tensor:
    """Look for each image's text, and for each text's image."""
    pairs, own = answers @ answers.T.detach(), torch.arange(len(answers))
    (pairs.argmax(0) == own).float().mean()
    return functional.cross_entropy(pairs, own)


PROBE = Probe(
    question="Do softmax and argmax run over dim 1 of the logits, in which cross_entropy has the classes?",
    why="scores of other positions or samples are compared with each other, and not those of the classes",
    fix=Fix("give it dim=1"),
    listener=OverDimensions,
    detect=detect,
    steps=STEPS,
    faulty=lambda answers, labels: accuracy(answers, labels, 2),
    healthy=lambda answers, labels: accuracy(answers, labels, 1),
    also_healthy=(both_ways,),
)
