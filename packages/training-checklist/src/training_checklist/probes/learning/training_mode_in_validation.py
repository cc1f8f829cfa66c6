from torch import nn

from training_checklist.instruments import LayerModes, TwoEpochs, leaves_modes_alone, with_part
from training_checklist.probe import Fix, Hit, Hits, Limits, Place, Probe


def detect(run: TwoEpochs, limits: Limits) -> Hits:
    modes = run.heard()
    leaves_modes_alone(run.pl_module)
    if modes.training_in_validation:
        yield Hit(
            f"{', '.join(modes.training_in_validation[:3])}.training is True during validation",
            Place(module=", ".join(modes.training_in_validation)),
        )


class Normed(with_part(lambda: nn.BatchNorm1d(4), lambda norm, answers: norm(answers))):
    mode = True

    def validation_step(self, batch: list, batch_idx: int) -> None:
        self.part.train(self.mode)
        self.loss(self(batch[0]), batch[1])


PROBE = Probe(
    question="Are all modules in eval mode during validation?",
    why="norms then use the batch and not their running statistics, learn from validation data, and dropout is on",
    listener=LayerModes,
    detect=detect,
    may_be_wrong="Monte Carlo dropout, and norms that are to use the batch at test time, are kept in training mode on "
    "purpose",
    fix=Fix("no train() in validation; Lightning switches modes itself"),
    faulty=Normed,
    healthy=type("InEval", (Normed,), {"mode": False}),
)
