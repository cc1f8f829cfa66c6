"""Prototypes that are to be used as often as a power law says: a divergence of the mean assignment from that law."""

import torch
from made import Splits, Task, drawn, views
from pytorch_lightning import LightningDataModule, LightningModule
from torch import Tensor, nn
from torch.nn import functional

SOURCE = "lightly-ai/lightly 337fb79f"
WRONG = "F.kl_div is given probabilities, where it takes log-probabilities."
NAMED = {"network/no-log-probabilities": "kl_div|regularisation"}

PROTOTYPES = 6


class MaskedSiamese(Task):
    lr = 3e-3

    def __init__(self) -> None:
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 8))
        self.prototypes = nn.Parameter(torch.randn(PROTOTYPES, 8, generator=drawn(3)))
        law = torch.arange(1, PROTOTYPES + 1) ** -0.25
        self.register_buffer("law", law / law.sum())

    def assigned(self, inputs: Tensor, temperature: float) -> Tensor:
        features, prototypes = functional.normalize(self.encoder(inputs)), functional.normalize(self.prototypes)
        return (features @ prototypes.T / temperature).softmax(dim=1)

    def regularisation(self, mean: Tensor) -> Tensor:
        return functional.kl_div(mean, self.law, reduction="sum")

    def loss(self, batch: list[Tensor]) -> Tensor:
        anchor, target, _ = batch
        answers = self.assigned(anchor, 0.1)
        with torch.no_grad():
            aims = self.assigned(target, 0.05)
        return -(aims * answers.log()).sum(dim=1).mean() + self.regularisation(answers.mean(dim=0))


class Mended(MaskedSiamese):
    def regularisation(self, mean: Tensor) -> Tensor:
        return functional.kl_div(mean.log(), self.law, reduction="sum")


def parts(mended: bool) -> tuple[LightningModule, LightningDataModule]:
    return (Mended if mended else MaskedSiamese)(), Splits(views(512, 1), views(128, 5), batch_size=64)
