import torch
from torch import Tensor
from torchmetrics import Metric

from training_checklist.instruments import PlainState, Validated, of_each
from training_checklist.probe import Fix, Hit, Hits, Limits, Probe


@of_each(lambda run: run.epochs.metrics.plain.values(), "no metric of the project's own keeps Metric.reset")
def detect(state: PlainState, limits: Limits) -> Hits:
    if state.changed:
        names = ", ".join(state.changed[:3])
        yield Hit(
            f"update() of {state.path} changes {names}, which add_state has not made: reset() leaves it as it is",
            state.place.beside(module=f"{state.path} ({state.type})", note=names),
        )


class Counted(Metric):
    def __init__(self) -> None:
        super().__init__()
        self.seen = torch.tensor(0)

    def update(self, number: Tensor) -> None:
        self.seen = self.seen + number

    def compute(self) -> Tensor:
        return self.seen.float()


class Registered(Counted):
    def __init__(self) -> None:
        Metric.__init__(self)
        self.add_state("seen", torch.tensor(0), dist_reduce_fx="sum")


class Counting(Validated):
    kind = Counted

    def __init__(self) -> None:
        super().__init__()
        self.number = self.kind()

    def validation_step(self, batch: list, batch_idx: int) -> None:
        self.number.update(torch.tensor(len(batch[1])))
        self.log("val/number", self.number)


PROBE = Probe(
    question="Does each metric keep what it accumulates in states made by add_state?",
    why="its value mixes all epochs, and the sanity check; several processes do not add it up",
    detect=detect,
    fix=Fix('self.add_state("features", default=[], dist_reduce_fx="cat") in the metric\'s __init__'),
    faulty=Counting,
    healthy=type("WithState", (Counting,), {"kind": Registered}),
)
