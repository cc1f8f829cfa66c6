import torch
from torch import Tensor
from torch.nn import functional

from training_checklist.instruments import WHY, AcceleratorStep, Small
from training_checklist.probe import Fix, Hits, Limits, Probe

DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")  # of an example
ADVICE = "device=x.device), x being an input of the module; self.device in a LightningModule"


def detect(step: AcceleratorStep, limits: Limits) -> Hits:
    for mix in step.of("made"):
        yield mix.fixed(f"{mix.origin.name} makes its tensor on the CPU", f"{mix.origin.name}(..., {ADVICE}")


class OfAvailability(Small):
    """Puts what it makes where its file has chosen: without an accelerator, it lies there already."""

    def forward(self, inputs: Tensor) -> Tensor:
        weights = torch.ones(
            4,
        ).to(DEVICE)
        return super().forward(inputs) * weights


class OverLines(OfAvailability):
    def forward(self, inputs: Tensor) -> Tensor:
        weights = torch.ones(
            4,
            device=DEVICE,
        )
        return Small.forward(self, inputs) * weights


class Later(OfAvailability):
    """Puts it there with something else, a line further on."""

    def forward(self, inputs: Tensor) -> Tensor:
        weights = torch.rand(2) + 1
        both = torch.cat([weights, weights]).to(DEVICE)
        return Small.forward(self, inputs) * both


PROBE = Probe(
    question="Does a step create each new tensor on the device of the tensors that it is used with?",
    why=WHY,
    detect=detect,
    fix=Fix(f"torch.ones(..., {ADVICE}"),
    faulty=lambda answers, labels: functional.cross_entropy(answers * torch.ones(4), labels),
    also_healthy=(OfAvailability, OverLines, Later),
    healthy=lambda answers, labels: functional.cross_entropy(answers * torch.ones(4, device=answers.device), labels),
)
