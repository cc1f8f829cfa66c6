"""A classifier on frozen features whose last layer is a softmax, before cross_entropy."""

import torch
from made import CLASSES, Splits, rows
from pytorch_lightning import LightningDataModule, LightningModule
from torch import Tensor, nn
from torch.nn import functional

SOURCE = "Lightning-Universe/lightning-bolts 6b7358c34"
WRONG = "The head ends in a softmax, and cross_entropy takes another one."
NAMED = {"network/probabilities-into-cross-entropy": "training_step|criterion|cross_entropy"}


class LinearEvaluation(LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.head = self.layers()

    def layers(self) -> nn.Sequential:
        return nn.Sequential(nn.Flatten(), nn.Dropout(0.2), nn.Linear(16, CLASSES), nn.Softmax(dim=1))

    def training_step(self, batch: list[Tensor], batch_idx: int) -> Tensor:
        features, labels = batch
        loss = functional.cross_entropy(self.head(features), labels)
        self.log("train/loss", loss)
        return loss

    def validation_step(self, batch: list[Tensor], batch_idx: int) -> None:
        features, labels = batch
        self.log("val/loss", functional.cross_entropy(self.head(features), labels))

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.Adam(self.parameters(), lr=0.01)


class Mended(LinearEvaluation):
    def layers(self) -> nn.Sequential:
        return nn.Sequential(nn.Flatten(), nn.Dropout(0.2), nn.Linear(16, CLASSES))


def parts(mended: bool) -> tuple[LightningModule, LightningDataModule]:
    return (Mended if mended else LinearEvaluation)(), Splits(rows(512, 1), rows(128, 5))
