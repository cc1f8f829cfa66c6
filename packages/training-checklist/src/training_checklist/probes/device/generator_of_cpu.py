import torch
from torch.nn import functional

from training_checklist.instruments import WHY, AcceleratorStep
from training_checklist.probe import Fix, Hits, Limits, Probe


def detect(step: AcceleratorStep, limits: Limits) -> Hits:
    for mix in step.of("generator"):
        yield mix.hit("its generator is one of the CPU")


PROBE = Probe(
    question="Is the torch.Generator of every random operation on the operation's device?",
    why=WHY,
    detect=detect,
    fix=Fix("make it on the device: torch.Generator(device=self.device)"),
    faulty=lambda answers, labels: functional.cross_entropy(
        answers + torch.rand(4, generator=torch.Generator(), device=answers.device), labels
    ),
    healthy=lambda answers, labels: functional.cross_entropy(answers + torch.rand(4, device=answers.device), labels),
)
