import torch
from torch.nn import functional

from training_checklist.instruments import WHY, AcceleratorStep
from training_checklist.probe import Fix, Hits, Limits, Probe

SCALE = torch.ones(4)


def detect(step: AcceleratorStep, limits: Limits) -> Hits:
    for mix in step.of("unknown"):
        yield mix.hit("a tensor of the CPU was made before the step")


PROBE = Probe(
    question="Are all tensors of each operation on one device?",
    why=WHY,
    detect=detect,
    fix=Fix("move it first: tensor.to(x.device), x being an input of the module"),
    faulty=lambda answers, labels: functional.cross_entropy(answers * SCALE, labels),
    healthy=lambda answers, labels: functional.cross_entropy(answers * SCALE.to(answers), labels),
)
