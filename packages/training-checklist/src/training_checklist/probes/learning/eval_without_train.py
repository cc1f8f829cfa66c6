from typing import Any

from torch import nn

from training_checklist.instruments import LayerModes, TwoEpochs, left_in_eval, with_part
from training_checklist.probe import WARNING, CannotJudge, Fix, Hit, Hits, Limits, Probe


def detect(run: TwoEpochs, limits: Limits) -> Hits:
    if run.heard().asleep:
        raise CannotJudge("the line that puts modules into eval mode is known already")
    for call, place in left_in_eval(run.trainer, run.pl_module):
        yield Hit(f"{call} amid training, and no train() after it: what follows trains in eval mode", place)


class Sampling(with_part(lambda: nn.Dropout(0.5), lambda dropout, answers: dropout(answers))):
    def on_train_batch_end(self, outputs: Any, batch: Any, batch_idx: int) -> None:
        if batch_idx % 1000 == 999:
            self.eval()
            self(batch[0])


class PuttingBack(Sampling):
    def on_train_batch_end(self, outputs: Any, batch: Any, batch_idx: int) -> None:
        if batch_idx % 1000 == 999:
            self.eval()
            self(batch[0])
            self.train()


PROBE = Probe(
    question="Is train() called after each eval() that a hook calls during training?",
    why="dropout does nothing from then on, and BatchNorm keeps its statistics; Lightning leaves eval() as it is",
    severity=WARNING,
    listener=LayerModes,
    detect=detect,
    fix=Fix("was = module.training; module.eval(); ...; module.train(was)"),
    faulty=Sampling,
    healthy=PuttingBack,
)
