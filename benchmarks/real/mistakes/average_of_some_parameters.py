"""Self-supervised learning from an average of the weights, as in BYOL, that a callback keeps."""

import copy

import torch
from made import Splits, Task, views
from pytorch_lightning import Callback, LightningDataModule, LightningModule, Trainer
from torch import Tensor, nn
from torch.nn import functional

SOURCE = "Lightning-Universe/lightning-bolts 29112531a"
WRONG = "The average skips each parameter whose name lacks `weight`: the biases of the target stay what they were."
NAMED = {"learning/average-of-some-weights": "target.*bias"}


class TargetUpdate(Callback):
    def __init__(self, rate: float = 0.9) -> None:
        self.rate = rate

    def on_train_batch_end(self, trainer: Trainer, pl_module: LightningModule, *_: object) -> None:
        with torch.no_grad():
            for name, target in pl_module.target.named_parameters():
                if self.is_averaged(name):
                    target.lerp_(pl_module.online.get_parameter(name), 1 - self.rate)

    def is_averaged(self, name: str) -> bool:
        return "weight" in name


class WholeTargetUpdate(TargetUpdate):
    def is_averaged(self, name: str) -> bool:
        return True


class Bootstrap(Task):
    update = TargetUpdate

    def __init__(self) -> None:
        super().__init__()
        self.online = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 8))
        self.predictor = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 8))
        self.target = copy.deepcopy(self.online).requires_grad_(False)

    def configure_callbacks(self) -> list[Callback]:
        return [self.update()]

    def loss(self, batch: list[Tensor]) -> Tensor:
        first, second, _ = batch
        return (self.one_way(first, second) + self.one_way(second, first)) / 2

    def one_way(self, seen: Tensor, other: Tensor) -> Tensor:
        with torch.no_grad():
            aim = self.target(other)
        return 2 - 2 * functional.cosine_similarity(self.predictor(self.online(seen)), aim).mean()

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.Adam([*self.online.parameters(), *self.predictor.parameters()], lr=3e-3)


class Mended(Bootstrap):
    update = WholeTargetUpdate


def parts(mended: bool) -> tuple[LightningModule, LightningDataModule]:
    return (Mended if mended else Bootstrap)(), Splits(views(512, 1), views(128, 5), batch_size=64)
