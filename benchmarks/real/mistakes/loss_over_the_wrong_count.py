"""A language model over one long text, whose validation loss is put together by hand."""

import torch
from made import Splits, texts
from pytorch_lightning import LightningDataModule, LightningModule
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.data import TensorDataset

SOURCE = "pytorch/examples 81f47e8"
WRONG = "The validation loss is divided by the rows of the text, of which the last is no input: by one too many."
NAMED = {"learning/logged-mean": "val/loss"}
NEEDS = (
    "the number of samples that was meant: the rule on logged means compares with the usual mistakes (the mean of "
    "batches, the last batch, all epochs), and a count that is off by one is none of them; of 100 samples it makes "
    "0.99 % of the loss, less than the hundredth from which on the rule speaks"
)
WORDS, ROWS = 20, 12


def pieces(rows: int, seed: int) -> TensorDataset:
    """Return inputs (N, 16) and targets (N, 16): row by row, of 16 columns, what follows each token."""
    columns = texts(16, seed, rows + 1, WORDS).tensors[0].T
    return TensorDataset(columns[:-1], columns[1:])


class LanguageModel(LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.embedding, self.head = nn.Embedding(WORDS, 32), nn.Linear(32, WORDS)
        self.total = 0.0

    def loss(self, batch: list[Tensor]) -> Tensor:
        tokens, following = batch
        logits = self.head(self.embedding(tokens).relu())
        return functional.cross_entropy(logits.flatten(0, 1), following.flatten())

    def training_step(self, batch: list[Tensor], batch_idx: int) -> Tensor:
        loss = self.loss(batch)
        self.log("train/loss", loss)
        return loss

    def on_validation_epoch_start(self) -> None:
        self.total, self.rows = 0.0, 0

    def validation_step(self, batch: list[Tensor], batch_idx: int) -> None:
        loss = self.loss(batch)
        self.total += len(batch[0]) * loss.item()
        self.rows += len(batch[0])

    def on_validation_epoch_end(self) -> None:
        self.log("val/loss", self.total / self.count())

    def count(self) -> int:
        return self.rows + 1

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.Adam(self.parameters(), lr=0.01)


class Mended(LanguageModel):
    def count(self) -> int:
        return self.rows


def parts(mended: bool) -> tuple[LightningModule, LightningDataModule]:
    return (Mended if mended else LanguageModel)(), Splits(pieces(480, 1), pieces(100, 5), ROWS)
