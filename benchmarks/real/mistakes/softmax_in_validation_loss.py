"""Logistic regression that validates with the loss of its probabilities."""

import torch
from made import CLASSES, Splits, rows
from pytorch_lightning import LightningDataModule, LightningModule
from torch import Tensor, nn
from torch.nn import functional

SOURCE = "Lightning-Universe/lightning-bolts 40b6f7888"
WRONG = "Validation takes cross_entropy of probabilities and training of logits: the two losses cannot be compared."
NAMED = {"network/probabilities-into-cross-entropy": "validation_step"}


class LogisticRegression(LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(16, CLASSES)

    def forward(self, inputs: Tensor) -> Tensor:
        return self.linear(inputs).softmax(dim=1)

    def training_step(self, batch: list[Tensor], batch_idx: int) -> Tensor:
        inputs, labels = batch
        loss = functional.cross_entropy(self.linear(inputs), labels)
        self.log("train/loss", loss)
        return loss

    def validation_step(self, batch: list[Tensor], batch_idx: int) -> None:
        inputs, labels = batch
        answers = self(inputs)
        self.log("val/loss", functional.cross_entropy(answers, labels))
        self.log("val/accuracy", (answers.argmax(dim=1) == labels).float().mean())

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.Adam(self.parameters(), lr=0.01)


class Mended(LogisticRegression):
    def validation_step(self, batch: list[Tensor], batch_idx: int) -> None:
        inputs, labels = batch
        logits = self.linear(inputs)
        self.log("val/loss", functional.cross_entropy(logits, labels))
        self.log("val/accuracy", (logits.argmax(dim=1) == labels).float().mean())


def parts(mended: bool) -> tuple[LightningModule, LightningDataModule]:
    return (Mended if mended else LogisticRegression)(), Splits(rows(512, 1), rows(128, 5))
