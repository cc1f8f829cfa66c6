"""Contrastive learning, whose forward pass somebody has looked into."""

from made import Splits, Task, views
from pytorch_lightning import LightningDataModule, LightningModule
from torch import Tensor, nn
from torch.nn import functional

SOURCE = "vturrisi/solo-learn 57e2608"
WRONG = "A print and an exit() from looking for another mistake are left in the forward pass."
LOUD = True
NAMED = {"crash": "look"}


class Contrastive(Task):
    lr = 3e-3

    def __init__(self) -> None:
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 8))

    def look(self, features: Tensor) -> None:
        print(features.shape)
        raise SystemExit

    def forward(self, inputs: Tensor) -> Tensor:
        features = functional.normalize(self.encoder(inputs))
        self.look(features)
        return features

    def loss(self, batch: list[Tensor]) -> Tensor:
        first, second, _ = batch
        scores = self(first) @ self(second).T / 0.2
        return -scores.log_softmax(dim=1).diagonal().mean()


class Mended(Contrastive):
    def look(self, features: Tensor) -> None:
        pass


def parts(mended: bool) -> tuple[LightningModule, LightningDataModule]:
    return (Mended if mended else Contrastive)(), Splits(views(512, 1), views(128, 5), batch_size=64)
