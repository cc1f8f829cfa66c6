"""Two views of which one is to predict the nearest neighbour of the other among those seen before."""

import torch
from made import Splits, Task, drawn, views
from pytorch_lightning import LightningDataModule, LightningModule
from torch import Tensor, nn
from torch.nn import functional

SOURCE = "lightly-ai/lightly f86c611d"
WRONG = "The predictor is given the features and not their projection, which is left without a gradient."
NAMED = {
    "network/module-without-gradient": "projection",
    "gradients/cut-off": "projection",
    "gradients/unused": "projection",
}


class Neighbours(Task):
    lr = 3e-3

    def __init__(self) -> None:
        super().__init__()
        self.backbone = nn.Sequential(nn.Linear(16, 16), nn.ReLU())
        self.projection = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 16))
        self.predictor = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 16))
        self.register_buffer("bank", functional.normalize(torch.randn(128, 16, generator=drawn(3))))

    def predicted(self, features: Tensor, projected: Tensor) -> Tensor:
        return self.predictor(features)

    def one_way(self, seen: Tensor, other: Tensor) -> Tensor:
        features = self.backbone(seen)
        answer = functional.normalize(self.predicted(features, self.projection(features)))
        with torch.no_grad():
            aims = functional.normalize(self.projection(self.backbone(other)))
            aims = self.bank[(aims @ self.bank.T).argmax(dim=1)]
        return functional.cross_entropy(answer @ aims.T / 0.5, torch.arange(len(seen), device=self.device))

    def loss(self, batch: list[Tensor]) -> Tensor:
        first, second, _ = batch
        return (self.one_way(first, second) + self.one_way(second, first)) / 2


class Mended(Neighbours):
    def predicted(self, features: Tensor, projected: Tensor) -> Tensor:
        return self.predictor(projected)


def parts(mended: bool) -> tuple[LightningModule, LightningDataModule]:
    return (Mended if mended else Neighbours)(), Splits(views(512, 1), views(128, 5), batch_size=64)
