import operator

import torch
from torch import Tensor, nn

from training_checklist.instruments import WHY, AcceleratorStep, Small, with_part
from training_checklist.probe import Fix, Hits, Limits, Probe


def detect(step: AcceleratorStep, limits: Limits) -> Hits:
    for mix in step.of("attribute"):
        yield mix.fixed(
            f"{mix.origin.name} is a plain attribute and no buffer",
            f'self.register_buffer("{mix.attribute}", ..., persistent=False) instead of self.{mix.attribute} = ...',
        )


class Placed:
    """Keeps numbers where its argument says: without an accelerator, on the CPU."""

    def __init__(self, device: torch.device) -> None:
        self.collocations: Tensor = torch.ones(4).to(device)


class OfAvailability(Small):
    """Asks once whether there is an accelerator."""

    def __init__(self) -> None:
        super().__init__()
        self.boundary = Placed(torch.device("cuda" if torch.cuda.is_available() else "cpu"))

    def forward(self, inputs: Tensor) -> Tensor:
        return super().forward(inputs) * self.boundary.collocations


class OfHyperparameters(Small):
    """Keeps a part of what it has put where a hyperparameter says, which its default asks for."""

    def __init__(self, device: str = "cuda" if torch.cuda.is_available() else "cpu") -> None:
        super().__init__()
        self.save_hyperparameters()
        both = torch.ones(8).to(self.hparams.device)
        self.half = both[:4]

    def forward(self, inputs: Tensor) -> Tensor:
        return super().forward(inputs) * self.half


class OfItself(Small):
    """Asks itself, before anything has moved it."""

    def __init__(self) -> None:
        super().__init__()
        self.edges = torch.ones(4, device=self.device)

    def forward(self, inputs: Tensor) -> Tensor:
        return super().forward(inputs) * self.edges


PROBE = Probe(
    question="Are all tensors that a module keeps parameters or buffers, so that they move to the device with it?",
    why=WHY,
    detect=detect,
    fix=Fix("register it as a buffer: self.register_buffer(name, tensor, persistent=False)"),
    faulty=with_part(lambda: torch.ones(4), operator.mul),
    also_faulty=(OfItself,),
    healthy=with_part(lambda: nn.Buffer(torch.ones(4)), operator.mul),
    also_healthy=(OfAvailability, OfHyperparameters),
)
