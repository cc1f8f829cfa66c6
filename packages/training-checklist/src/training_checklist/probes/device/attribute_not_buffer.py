import operator

import torch
from torch import nn

from training_checklist.instruments import WHY, AcceleratorStep, with_part
from training_checklist.probe import Fix, Hits, Limits, Probe


def detect(step: AcceleratorStep, limits: Limits) -> Hits:
    for mix in step.of("attribute"):
        yield mix.fixed(
            f"{mix.origin.name} is a plain attribute and no buffer",
            f'self.register_buffer("{mix.attribute}", ..., persistent=False) instead of self.{mix.attribute} = ...',
        )


PROBE = Probe(
    question="Are all tensors that a module keeps parameters or buffers, so that they move to the device with it?",
    why=WHY,
    detect=detect,
    fix=Fix("register it as a buffer: self.register_buffer(name, tensor, persistent=False)"),
    faulty=with_part(lambda: torch.ones(4), operator.mul),
    healthy=with_part(lambda: nn.Buffer(torch.ones(4)), operator.mul),
)
