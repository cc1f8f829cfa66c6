from copy import deepcopy
from typing import Any

from training_checklist.instruments import TwoEpochs, Validated
from training_checklist.probe import CannotJudge, Fix, Hit, Hits, Limits, Place, Probe


def detect(run: TwoEpochs, limits: Limits) -> Hits:
    seen = run.epochs.validated
    if len(seen.answers) < 2 or not all(seen.answers) or len(set(seen.batches)) > 1 or len(set(seen.weights)) < 2:
        raise CannotJudge("no module was seen to answer to one validation batch before and after further training")
    if all(answers == seen.answers[0] for answers in seen.answers):
        names = ", ".join(seen.answers[0])
        yield Hit(
            f"{names} answers to the first validation batch with the very same numbers after another epoch, in which "
            f"weights have changed",
            Place(module=names, function="validation_step"),
        )


class Copied(Validated):
    """A network beside a copy of its first layer, which is validated."""

    follows = False

    def __init__(self) -> None:
        super().__init__()
        self.copy = deepcopy(self.first).requires_grad_(False)

    def validation_step(self, batch: list, batch_idx: int) -> None:
        self.copy(batch[0])

    def on_train_batch_end(self, *_: Any) -> None:
        if self.follows:
            self.copy.load_state_dict(self.first.state_dict())


PROBE = Probe(
    question="Does the network that is validated change with training?",
    why="validation looks at weights that are not those in training: a copy, or an average that is never updated",
    detect=detect,
    fix=Fix("validate the network that is trained, or look at what updates the other one"),
    faulty=Copied,
    healthy=type("Following", (Copied,), {"follows": True}),
)
