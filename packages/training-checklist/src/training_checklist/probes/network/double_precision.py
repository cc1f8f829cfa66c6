from typing import Any

import torch

from training_checklist.instruments import Example, Small, Step
from training_checklist.probe import WARNING, Fix, Hit, Hits, Limits, Place, Probe


def detect(step: Step, limits: Limits) -> Hits:
    weights, precision = dict(step.pl_module.named_parameters()), str(step.trainer.precision)
    double = [name for name, weight in weights.items() if weight.dtype == torch.float64]
    is_default = len(double) == len(weights) and torch.get_default_dtype() == torch.float64
    if double and "64" not in precision and not is_default:
        yield Hit(
            f"{len(double)} of {len(weights)} parameters are float64, with trainer.precision={precision}: "
            f"{', '.join(double[:3])}",
            Place(parameter=double[0]),
        )


class Double(Small):
    def on_fit_start(self) -> None:
        self.double()

    def on_after_batch_transfer(self, batch: Any, dataloader_idx: int) -> Any:
        return batch[0].double(), batch[1]


PROBE = Probe(
    question="Are the parameters float32 or smaller, unless trainer.precision asks for 64 bits?",
    why="they take twice the memory and several times the time; many accelerators have next to no units for float64",
    severity=WARNING,
    may_be_wrong="physics, and solvers inside a network, may need float64",
    fix=Fix("no .double(); data from NumPy are float64: .float()"),
    detect=detect,
    faulty=Double,
    healthy=Example(Double, trainer={"precision": "64-true"}),
)
