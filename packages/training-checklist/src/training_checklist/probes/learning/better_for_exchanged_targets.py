import torch
from torch import Tensor

from training_checklist.instruments import (
    TwoEpochs,
    Validated,
    better,
    learnt,
    of_function,
    of_training_samples,
    with_exchanged_targets,
)
from training_checklist.probe import CannotJudge, Fix, Hit, Hits, Limits, Probe


def detect(run: TwoEpochs, limits: Limits) -> Hits:
    found = with_exchanged_targets(run)
    known = {name: each for name, each in found.items() if better(name) is not None}
    if not known:
        raise CannotJudge("validation logs nothing whose name tells whether more or less of it is better")
    for name, each in known.items():
        # Of samples unlike those of training, what has been learnt may fit others' targets better by chance.
        if each.better not in (None, better(name)) and of_training_samples(run).get(name) == each.better:
            more = "more" if better(name) == "max" else "less"
            yield Hit(
                f"{name} of a copy that has learnt is {each.right:.4g} with the true targets, and {each.wrong:.4g} "
                f"with those of other samples: {more} is better",
                of_function(type(run.pl_module).validation_step).beside(note=name),
            )


class Ranked(Validated):
    """Is trained to give the label a higher score than the mean of all."""

    sign = 1.0

    def loss(self, answers: Tensor, labels: Tensor) -> Tensor:
        return -torch.sigmoid(self.sign * (answers.gather(1, labels[:, None]) - answers.mean(1, True))).mean()

    def validation_step(self, batch: list[Tensor], batch_idx: int) -> None:
        self.log("val/acc", (self(batch[0]).argmax(1) == batch[1]).float().mean())


PROBE = Probe(
    question="Is each metric of validation better with the true targets than with those of other samples?",
    why="what training makes better makes this worse: the loss, or the metric, has the wrong sign or order",
    detect=detect,
    fix=Fix("look at the sign of the loss, and at what the metric takes for best: the largest, the first, the nearest"),
    faulty=learnt(type("Reversed", (Ranked,), {"sign": -1.0})),
    healthy=learnt(Ranked),
)
