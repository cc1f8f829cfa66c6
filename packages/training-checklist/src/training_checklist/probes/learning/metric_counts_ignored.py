from torch import Tensor
from torch.nn import functional

from training_checklist.instruments import (
    Answered,
    Validated,
    answered_steps,
    of_each,
)
from training_checklist.probe import CannotJudge, Fix, Hit, Hits, Limits, Probe


@of_each(answered_steps, "no step could be taken with other answers")
def detect(answered: Answered, limits: Limits) -> Hits:
    if not answered.ignored:
        raise CannotJudge("the criterion ignores no target")
    for name in answered.counting_ignored:
        yield Hit(
            f"{name} is {answered.one_elsewhere[name]:.4g} or {answered.other_elsewhere[name]:.4g}, as the network "
            f"answers this or that at the {answered.ignored} places whose target the criterion ignores",
            answered.place.beside(function=answered.step, note=name),
        )


class Ignoring(Validated):
    counts_ignored = True

    def loss(self, answers: Tensor, labels: Tensor) -> Tensor:
        return functional.cross_entropy(answers, labels, ignore_index=0)

    def validation_step(self, batch: list, batch_idx: int) -> None:
        answers, labels = self(batch[0]), batch[1]
        self.loss(answers, labels)
        counted = labels >= 0 if self.counts_ignored else labels != 0
        self.log("val/acc", (answers.argmax(1) == labels)[counted].float().mean())


PROBE = Probe(
    question="Do metrics ignore the same targets as the criterion (ignore_index)?",
    why="padding counts as right or as wrong answers, so that the metric tells how long sequences are",
    detect=detect,
    fix=Fix("give the metric the criterion's ignore_index, or only the positions that are no padding"),
    faulty=Ignoring,
    healthy=type("Likewise", (Ignoring,), {"counts_ignored": False}),
)
