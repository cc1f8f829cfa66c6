from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional

from training_checklist.instruments import WHY, AcceleratorStep, with_part
from training_checklist.probe import Fix, Hit, Hits, Limits, Probe

SCALE = torch.ones(4)


def detect(step: AcceleratorStep, limits: Limits) -> Hits:
    for mix in step.of("unknown"):
        yield mix.hit("a tensor of the CPU was made before the step")
    for mix in step.of("moved"):
        yield mix.fixed("a tensor was moved to the CPU", "leave that out, or move it back with .to(x.device)")
    for mix in step.of("torch"):
        yield Hit(mix.origin.name, mix.used)


def recurrent(state: Callable[[Tensor], Tensor]) -> type:
    return with_part(lambda: nn.GRU(4, 4), lambda rnn, answers: rnn(answers, state(answers))[0])


PROBE = Probe(
    question="Are all tensors of each operation, and of PyTorch's own modules, on one device?",
    why=WHY,
    aliases=("device/moved-to-cpu", "device/refused-by-torch"),
    detect=detect,
    fix=Fix("move it first: tensor.to(x.device), x being an input of the module"),
    faulty=lambda answers, labels: functional.cross_entropy(answers * SCALE, labels),
    also_faulty=(
        lambda answers, labels: functional.cross_entropy(answers.cpu(), labels),
        lambda answers, labels: functional.cross_entropy(answers * SCALE**2, labels),
        recurrent(lambda answers: torch.zeros(1, 4)),
    ),
    healthy=lambda answers, labels: functional.cross_entropy(answers * SCALE.to(answers), labels),
    also_healthy=(
        lambda answers, labels: functional.cross_entropy(answers.to(labels.device), labels),
        recurrent(lambda answers: torch.zeros(1, 4).to(answers)),
    ),
)
