import torch
from torch import Tensor, nn

from training_checklist.instruments import FirstSteps, Small, several_steps, with_part
from training_checklist.probe import WARNING, CannotJudge, Fix, Hit, Hits, Limits, Probe


def detect(steps: FirstSteps, limits: Limits) -> Hits:
    twice = []
    for first, *later in steps.batch_norms:
        # Two draws of one input, as under dropout, are both learnt from.
        again = [each for each in later if not (first.is_used and each.is_used)]
        twice += [each.place for each in again if torch.equal(first.value, each.value)][:1]
    if not steps.pl_module.automatic_optimization:
        raise CannotJudge("in a step that drives its optimizers, a network may answer a second time, for another loss")
    if twice:
        yield Hit(
            f"batch normalisation is given the very same input twice in a training step, in {len(twice)} "
            f"of {len(steps.batch_norms)} layers",
            twice[0],
        )


class Normed(with_part(lambda: nn.BatchNorm1d(4), lambda norm, answers: norm(answers))):
    again = True

    def training_step(self, batch: list, batch_idx: int) -> Tensor:
        with torch.no_grad():
            self(batch[0] if self.again else batch[0].flip(0) + 1)  # another view of the samples
        return super().training_step(batch, batch_idx)


class OfTwoDraws(Normed):
    """Learns from two answers to the same samples, between which dropout draws anew (R-Drop)."""

    def training_step(self, batch: list, batch_idx: int) -> Tensor:
        return Small.training_step(self, batch, batch_idx) + Small.training_step(self, batch, batch_idx)


PROBE = Probe(
    question="Does each BatchNorm see the same input only once in a training step?",
    why="its running statistics count the batch twice, and the forward pass is paid for twice",
    severity=WARNING,
    fix=Fix("call the network once and use its output for the loss and for the metrics"),
    detect=detect,
    faulty=several_steps(Normed),
    healthy=several_steps(type("TwoViews", (Normed,), {"again": False})),
    also_healthy=(several_steps(OfTwoDraws),),
)
