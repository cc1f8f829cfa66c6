import copy
from functools import partial
from typing import Any

from torch import Tensor, nn
from torch.optim import SGD

from training_checklist.instruments import Averages, Copies, Small, of_each, several_steps
from training_checklist.probe import WARNING, Fix, Hit, Hits, Limits, Probe


@of_each(lambda run: run.heard().followed(), "nothing began as a copy of a weight that trains")
def detect(copies: Copies, limits: Limits) -> Hits:
    if copies.moved and copies.still:
        what = f"{len(copies.moved)} tensors of {copies.owner} follow the weights that they were copied from, and never"
        yield Hit(f"{what} these {len(copies.still)}: {', '.join(copies.still[:3])}", copies.place)


class Following(Small):
    followed = ("weight",)

    def __init__(self) -> None:
        super().__init__()
        self.target = nn.Sequential(nn.Linear(8, 16)).requires_grad_(False)
        self.target[0].load_state_dict(self.first.state_dict())

    def on_train_batch_end(self, *_: Any) -> None:
        for name in self.followed:
            self.target[0].get_parameter(name).copy_(self.first.get_parameter(name).detach())

    def training_step(self, batch: list, batch_idx: int) -> Tensor:
        return super().training_step(batch, batch_idx) + self.target(batch[0]).mean().detach()


class Slowly(Small):
    """Has a bias before a norm, whose only gradient is rounding."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Sequential(nn.Linear(8, 16), nn.BatchNorm1d(16))
        self.target = copy.deepcopy(self.first).requires_grad_(False)

    def on_train_batch_end(self, *_: Any) -> None:
        for own, weight in zip(self.target.parameters(), self.first.parameters(), strict=True):
            own.lerp_(weight.detach(), 0.01)


PROBE = Probe(
    question="Does a moving average, or another copy of the weights, follow every weight that is trained?",
    why="the copy computes with some trained weights beside others that are still the initial ones",
    severity=WARNING,
    listener=Averages,
    detect=detect,
    fix=Fix("go through all of parameters(), without choosing them by their names"),
    faulty=Following,
    healthy=type("Whole", (Following,), {"followed": ("weight", "bias")}),
    also_healthy=(several_steps(Slowly, optimizer=partial(SGD, lr=0.5)),),
)
