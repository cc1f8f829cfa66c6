import torch
from torch import Tensor, nn

from training_checklist.instruments import Small, Step, initialized
from training_checklist.probe import Fix, Hit, Hits, Limits, Place, Probe


def detect(step: Step, limits: Limits) -> Hits:
    known = {id(parameter) for parameter in step.pl_module.parameters()}
    for path, module in step.modules.unregistered.items():
        if all(id(parameter) in known for parameter in module.parameters()):  # a part of one that is, as of net[:2]
            continue
        learns = sum(parameter.numel() for parameter in initialized(module.parameters()) if parameter.requires_grad)
        size = f"{type(module).__name__}, {learns} parameters"
        yield Hit(f"{path} ({size}) is called but is not registered", Place(module=path))


class Listed(Small):
    keep: type = list

    def __init__(self) -> None:
        super().__init__()
        self.extra = self.keep([nn.Linear(16, 16)])

    def forward(self, inputs: Tensor) -> Tensor:
        return self.head(torch.relu(self.extra[0](torch.relu(self.first(inputs)))))


class Registered(Listed):
    keep = nn.ModuleList


class Sliced(Small):
    """Calls a part of a registered nn.Sequential."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Tanh())

    def forward(self, inputs: Tensor) -> Tensor:
        return self.head(self.first[:2](inputs))


PROBE = Probe(
    question="Is every layer that is called a submodule of the LightningModule, and not in a plain list or dict?",
    why="the optimizer never sees its weights, checkpoints lack them, and they stay on the CPU",
    fix=Fix("assign it to an attribute of the module, or keep it in nn.ModuleList or nn.ModuleDict"),
    detect=detect,
    faulty=Listed,
    healthy=Registered,
    also_healthy=(Sliced,),
)
