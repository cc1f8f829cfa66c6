from typing import Any

import torch
from torch import Tensor
from torch.utils.data import DataLoader, default_collate

from training_checklist.instruments import WHY, AcceleratorStep, Example, Small, samples
from training_checklist.probe import Fix, Hits, Limits, Probe


def detect(step: AcceleratorStep, limits: Limits) -> Hits:
    for mix in step.of("batch"):
        yield mix.hit(f"{mix.origin.name} is left behind when the batch is moved")


class Samples:
    """A batch that Lightning knows nothing of."""

    def __init__(self, batch: list[tuple[Tensor, Tensor]]) -> None:
        self.inputs, self.labels = default_collate(batch)


class Moving(Samples):
    def to(self, device: torch.device, **options: Any) -> "Moving":
        self.inputs, self.labels = self.inputs.to(device), self.labels.to(device)
        return self


class Reading(Small):
    def training_step(self, batch: Samples, batch_idx: int) -> Tensor:
        return self.loss(self(batch.inputs), batch.labels)


PROBE = Probe(
    question="Does Lightning move every tensor of a batch to the device?",
    why=WHY,
    detect=detect,
    fix=Fix("move it in transfer_batch_to_device, or give its class a method to(device) that does"),
    faulty=Example(Reading, lambda: DataLoader(samples(), 16, collate_fn=Samples)),
    healthy=Example(Reading, lambda: DataLoader(samples(), 16, collate_fn=Moving)),
)
