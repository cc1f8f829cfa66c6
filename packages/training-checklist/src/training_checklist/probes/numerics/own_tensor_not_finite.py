from functools import partial

from torch import Tensor
from torch.nn import functional

from training_checklist.instruments import Numbers, detect_overflow
from training_checklist.probe import CannotJudge, Fix, Hit, Hits, Limits, Place, Probe


def detect(numbers: Numbers, limits: Limits) -> Hits:
    if not numbers.shown:
        raise CannotJudge("the project has given detect_overflow no tensor")
    for name, what in numbers.shown.items():
        if what:
            yield Hit(what, Place(note=name))


def shown(eps: float, answers: Tensor, labels: Tensor) -> Tensor:
    detect_overflow((answers.relu() + eps).log(), "log of answers")
    return functional.cross_entropy(answers, labels)


PROBE = Probe(
    item="overflow",
    question="Is every tensor finite that the project gives to detect_overflow?",
    why="what detect_overflow was given has left the range of its type",
    fix=Fix("look at what makes it"),
    detect=detect,
    faulty=partial(shown, 0.0),
    healthy=partial(shown, 1e-6),
)
