import re
from math import isclose

from torch import Tensor

from training_checklist.instruments import (
    ROUNDING,
    TwoEpochs,
    Validated,
    better,
    learnt,
    of_function,
    with_exchanged_targets,
)
from training_checklist.probe import Fix, Hit, Hits, Limits, Probe

RANK = re.compile(r"(?:@|top|acc(?:uracy)?)[-_]?(\d+)")
PERFECT = {"max": (1.0, 100.0), "min": (0.0,)}


def detect(run: TwoEpochs, limits: Limits) -> Hits:
    found = with_exchanged_targets(run)
    tells = any(each.better is not None for each in found.values())  # targets matter to something
    for name, each in found.items():
        is_same = isclose(each.right, each.wrong, rel_tol=ROUNDING) and (tells or each.before == each.right)
        if is_same and falls_short(name) and each.right in PERFECT.get(better(name), ()):
            yield Hit(
                f"{name} of a copy that has learnt is {each.right:g} with the true targets, and with those of other "
                "samples, too",
                of_function(type(run.pl_module).validation_step).beside(note=name),
            )


def falls_short(name: str) -> bool:
    """Whether a metric can be perfect for good answers alone.

    "positive" for all samples recalls all that are, and among the first five of five classes is any label.
    """
    name = name.lower()
    ranks = {int(number) for number in RANK.findall(name)}
    return "loss" not in name and ("recall" not in name or bool(ranks)) and ranks <= {1}


class WithItself(Validated):
    """Measures how well the answers agree with themselves."""

    def validation_step(self, batch: list[Tensor], batch_idx: int) -> None:
        answers = self(batch[0])
        self.log("val/loss", self.loss(answers, batch[1]))
        self.log("val/acc", self.share(answers.argmax(1), batch[1]))

    def share(self, answers: Tensor, labels: Tensor) -> Tensor:
        return (answers == answers).float().mean()


class AmongFour(WithItself):
    """Counts as right what is among the first four of four classes."""

    def validation_step(self, batch: list[Tensor], batch_idx: int) -> None:
        right = (self(batch[0]).topk(4).indices == batch[1][:, None]).any(1)
        self.log("val/acc4", right.float().mean())


class WithLabels(WithItself):
    def share(self, answers: Tensor, labels: Tensor) -> Tensor:
        return (answers == labels).float().mean()


PROBE = Probe(
    question="Does each metric of validation fall short of perfect with the targets of other samples?",
    why="it does not compare with the targets: with the answers themselves, a sample with itself, or with nothing",
    detect=detect,
    fix=Fix("look at what the metric is given: answers and targets, and a query that is no part of its own gallery"),
    faulty=learnt(WithItself),
    healthy=learnt(WithLabels),
    also_healthy=(learnt(AmongFour),),
)
