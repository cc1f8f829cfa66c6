from statistics import median
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from training_checklist.instruments import Small, WholeTraining, ends, looked_at
from training_checklist.probe import WARNING, Fix, Hit, Hits, Limits, Place, Probe, Threshold


def detect(training: WholeTraining, limits: Limits) -> Hits:
    drifted = {}
    first, last = ends([look.scales for look in training.looked])
    for name in first[0]:
        if all(name in look.scales for look in training.looked):
            sizes = [median(scales[name] for scales in part) for part in (first, last)]
            if all(sizes) and max(sizes) > limits.drift * min(sizes):  # a head may start from 0
                drifted[name] = sizes
    if drifted:
        name, (first, last) = max(drifted.items(), key=lambda item: max(item[1]) / min(item[1]))
        others = f", and {len(drifted) - 1} more modules likewise" if len(drifted) > 1 else ""
        yield Hit(
            f"what {name} returns has a root mean square of {first:.2g} at the start of training and of {last:.2g} at "
            f"its end{others}",
            Place(module=name),
        )


class Growing(Small):
    """One whose first layer grows after each step, with a norm after it."""

    factor = 1.51

    def forward(self, inputs: Tensor) -> Tensor:
        return self.head(functional.normalize(self.first(inputs)))

    def on_train_batch_end(self, outputs: Any, batch: list, batch_idx: int) -> None:
        with torch.no_grad():
            torch._foreach_mul_([*self.first.parameters()], self.factor)


PROBE = Probe(
    question="Do the outputs of each module stay within a few orders of magnitude during training?",
    why="whatever comes after it was made for another scale, and 16-bit types end at 65504; weights that grow without "
    "bound fit, a norm that is missing, or a sum that goes on and on",
    severity=WARNING,
    fix=Fix("a norm before it, weight decay, or a lower learning rate", items=("overflow",)),
    detect=detect,
    thresholds={
        "drift": Threshold(
            1000,
            "times, one way or the other: the greatest that was measured over twelve healthy networks is 14, of the "
            "head of six ReLU layers that SGD is slow to begin with; most are below 3",
        )
    },
    faulty=looked_at(Growing),
    healthy=looked_at(type("Slower", (Growing,), {"factor": 1.425})),
    symptom=True,
)
