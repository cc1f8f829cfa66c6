import torch
from torch import nn

from training_checklist.instruments import WHY, AcceleratorStep, with_part
from training_checklist.probe import Fix, Hit, Hits, Limits, Probe


def detect(step: AcceleratorStep, limits: Limits) -> Hits:
    for mix in step.of("torch"):
        yield Hit(mix.origin.name, mix.used)


PROBE = Probe(
    question="Are all inputs of PyTorch's own modules, such as the hidden state of a GRU, on the module's device?",
    why=WHY,
    detect=detect,
    fix=Fix("make the tensor where the others are: device=x.device, x being an input of the module"),
    faulty=with_part(lambda: nn.GRU(4, 4), lambda rnn, answers: rnn(answers, torch.zeros(1, 4))[0]),
    healthy=with_part(lambda: nn.GRU(4, 4), lambda rnn, answers: rnn(answers, torch.zeros(1, 4).to(answers))[0]),
)
