from copy import deepcopy

from training_checklist.instruments import TwoEpochs, Validated, shown
from training_checklist.probe import CannotJudge, Fix, Hit, Hits, Limits, Probe


def detect(run: TwoEpochs, limits: Limits) -> Hits:
    seen = run.epochs.over_validation
    if seen is None:
        raise CannotJudge("no training step came after validation")
    if seen.changed:
        yield Hit(
            f"training goes on from other weights than those that it had before validation: {len(seen.changed)} of "
            f"{seen.total} parameters are what validation put there",
            seen.place.beside(parameter=shown(seen.changed)),
        )


class Swapping(Validated):
    """Validates with the weights of the start."""

    puts_back = False

    def on_train_start(self) -> None:
        self.at_start = deepcopy(self.state_dict())

    def on_validation_start(self) -> None:
        self.trained = deepcopy(self.state_dict())
        self.load_state_dict(self.at_start)

    def on_validation_end(self) -> None:
        if self.puts_back:
            self.load_state_dict(self.trained)


PROBE = Probe(
    question="Are the weights the same before and after validation?",
    why="every epoch begins with the weights that were put in for validation, such as an average of earlier ones, and "
    "the steps between are lost",
    detect=detect,
    fix=Fix("put the trained weights back in on_validation_end"),
    faulty=Swapping,
    healthy=type("PuttingBack", (Swapping,), {"puts_back": True}),
)
