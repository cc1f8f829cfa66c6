import torch
from torch import Tensor, nn

from training_checklist.instruments import Small, Step
from training_checklist.probe import WARNING, Fix, Hit, Hits, Limits, Place, Probe


def detect(step: Step, limits: Limits) -> Hits:
    shared = {path: after for norms in step.modules.norms for path, after in norms.items() if len(after) > 1}
    for path, after in shared.items():
        kind = type(step.pl_module.get_submodule(path)).__name__
        what = f"{path} normalises the outputs of {' and of '.join(after)} in one pass"
        yield Hit(what, Place(module=f"{path} ({kind})"))


class Shared(Small):
    def __init__(self) -> None:
        super().__init__()
        self.second = nn.Linear(16, 16)
        self.norms = nn.ModuleList([nn.BatchNorm1d(16)] * 2)

    def forward(self, inputs: Tensor) -> Tensor:
        hidden = torch.relu(self.norms[0](self.first(inputs)))
        return self.head(torch.relu(self.norms[1](self.second(hidden))))


class Separate(Shared):
    def __init__(self) -> None:
        super().__init__()
        self.norms = nn.ModuleList([nn.BatchNorm1d(16), nn.BatchNorm1d(16)])


PROBE = Probe(
    question="Does each BatchNorm normalise the output of one layer only?",
    why="its running statistics mix those of several layers, and evaluation normalises each of them by the mixture",
    severity=WARNING,
    fix=Fix("give each layer a normalisation of its own"),
    detect=detect,
    faulty=Shared,
    healthy=Separate,
)
