from typing import Any

import torch
from torch import Tensor, nn

from training_checklist.instruments import Small, WholeTraining, ends, looked_at
from training_checklist.probe import WARNING, CannotJudge, Fix, Hit, Hits, Limits, Probe, Threshold


def detect(training: WholeTraining, limits: Limits) -> Hits:
    first, last = ends(training.looked)
    known = 0
    for calls in zip(*(look.units for look in [*first, *last]), strict=False):  # that all looks share
        dims = set.intersection(*(set(call.alive) for call in calls))
        if not dims or len({(call.name, call.place) for call in calls}) > 1:
            continue
        # Of three dimensions either may be the units: those that are more often alive hide nothing.
        dim = max(dims, key=lambda dim: float(calls[0].alive[dim].float().mean()))
        ends_of_it = calls[: len(first)], calls[len(first) :]
        rows = min(sum(call.rows for call in part) for part in ends_of_it)
        if len({len(call.alive[dim]) for call in calls}) > 1 or rows < limits.died_rows:
            continue
        known += 1
        before, after = (torch.stack([call.alive[dim] for call in part]).any(0) for part in ends_of_it)
        died = int((before & ~after).sum())
        if died > limits.died_share * len(before):
            yield Hit(
                f"{died} of {len(before)} units of {calls[0].name} that had a slope at the start have one of "
                f"exactly 0 for each of {rows} inputs from step {last[0].step} on",
                calls[0].place,
            )
    if not known:
        raise CannotJudge(f"no relu, tanh or sigmoid has been given {limits.died_rows} inputs at both ends")


class Dying(Small):
    """Some of its 16 units die in the middle of training: what goes into them is negative from then on."""

    units = 12

    def forward(self, inputs: Tensor) -> Tensor:
        return self.head(torch.relu(self.first(inputs)))

    def on_train_batch_start(self, batch: Any, batch_idx: int) -> None:
        if self.global_step == 16 * (self.trainer.max_epochs // 4):
            nn.init.constant_(self.first.bias[: self.units], -1e3)


PROBE = Probe(
    question="Do units of ReLU, tanh and sigmoid that had a gradient at the start of training still have one at its "
    "end?",
    why="such a unit gives the same for all inputs, nothing is trained through it, and it does not come back; steps "
    "that were too long fit, and weights or inputs that grow",
    severity=WARNING,
    fix=Fix("a lower learning rate, warm-up or clipping; the figure shows when they died", items=("learning",)),
    detect=detect,
    thresholds={
        "died_share": Threshold(
            0.5,
            "of a function's units: up to 0.18 were measured over twelve healthy networks (convolutions, two to twelve "
            "layers of ReLU, tanh, sigmoid, with norms and without, by Adam and SGD); a half is also what SageMaker "
            "Debugger's DeadRelu has",
            factor=1.5,
            faulty=looked_at(type("Half", (Dying,), {"units": 10}), epochs=16),
            healthy=looked_at(type("Fewer", (Dying,), {"units": 7}), epochs=16),
        ),
        "died_rows": Threshold(
            100,
            "inputs: a unit that has a slope for 5 % of them has none for all of 100 with a probability of 0.6 %",
            faulty=looked_at(Dying, epochs=16),
            healthy=looked_at(Dying, epochs=8),
        ),
    },
    faulty=looked_at(Dying, epochs=16),
    healthy=looked_at(type("Living", (Dying,), {"units": 2}), epochs=16),
    symptom=True,
)
