from typing import Any

from torch import Tensor, nn

from training_checklist.instruments import LayerModes, TwoEpochs, with_part
from training_checklist.probe import FAILED, WARNING, Fix, Hit, Hits, Limits, Probe


def detect(run: TwoEpochs, limits: Limits) -> Hits:
    modes = run.heard()
    if modes.eval_in_training:
        yield Hit(
            f"{', '.join(modes.eval_in_training[:3])}.training is False while parameters of it train",
            modes.eval_line.beside(module=", ".join(modes.eval_in_training)),
            severity=WARNING if modes.training_in_training else FAILED,
        )


class Normed(with_part(lambda: nn.Sequential(nn.BatchNorm1d(4)), lambda norm, answers: norm(answers))):
    mode = False

    def on_train_epoch_start(self) -> None:
        self.part.train(self.mode)


class InTurns(Normed):
    """Asks it in eval mode first, as a critic that is not to learn from that."""

    def training_step(self, batch: Any, batch_idx: int) -> Tensor:
        losses = [super(InTurns, self.train(mode)).training_step(batch, batch_idx) for mode in (False, True)]
        return sum(losses)

    def on_train_epoch_start(self) -> None:
        pass


PROBE = Probe(
    question="Are all modules whose parameters are trained in training mode?",
    why="dropout does nothing then, and BatchNorm keeps its first statistics; Lightning leaves eval() as it is",
    listener=LayerModes,
    detect=detect,
    may_be_wrong="BatchNorm keeps the statistics of pretraining on purpose in fine-tuning, while its scale and shift "
    "train",
    fix=Fix("no eval() outside of validation, or train() before fit; freeze what is to stay as it is"),
    faulty=Normed,
    healthy=type("Training", (Normed,), {"mode": True}),
    also_healthy=(InTurns,),
)
