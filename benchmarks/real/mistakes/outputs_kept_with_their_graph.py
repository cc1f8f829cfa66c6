"""A forecast whose steps are kept until the epoch is over, for its log."""

import torch
from made import Splits, curve
from pytorch_lightning import LightningDataModule, LightningModule
from torch import Tensor, nn
from torch.nn import functional

SOURCE = "sktime/pytorch-forecasting a88a4043"
WRONG = "What training_step keeps of each batch still has its graph: memory grows until the epoch is over."
NAMED = {"memory/graph-kept": "outputs|kept|training_step"}


class Forecast(LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 1))
        self.outputs: list[dict[str, Tensor]] = []

    def kept(self, log: dict[str, Tensor]) -> dict[str, Tensor]:
        return log

    def training_step(self, batch: list[Tensor], batch_idx: int) -> Tensor:
        inputs, targets = batch
        answers = self.net(inputs)
        loss = functional.mse_loss(answers, targets)
        self.outputs.append(self.kept({"loss": loss, "bias": (answers - targets).mean()}))
        return loss

    def on_train_epoch_end(self) -> None:
        for name in ("loss", "bias"):
            self.log(f"train/{name}", torch.stack([log[name].detach() for log in self.outputs]).mean())
        self.outputs.clear()

    def validation_step(self, batch: list[Tensor], batch_idx: int) -> None:
        inputs, targets = batch
        self.log("val/loss", functional.mse_loss(self.net(inputs), targets))

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.Adam(self.parameters(), lr=0.01)


class Mended(Forecast):
    def kept(self, log: dict[str, Tensor]) -> dict[str, Tensor]:
        return {name: value.detach() for name, value in log.items()}


def parts(mended: bool) -> tuple[LightningModule, LightningDataModule]:
    return (Mended if mended else Forecast)(), Splits(curve(1024, 1), curve(128, 5))
