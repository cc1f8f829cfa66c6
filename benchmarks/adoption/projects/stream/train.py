from collections.abc import Iterator

import hydra
import lightning as L
import torch
from hydra.utils import instantiate
from omegaconf import DictConfig
from torch import nn
from torch.utils.data import DataLoader, IterableDataset


class Sensor(IterableDataset):
    """Endless windows of a noisy oscillator, (48, 1), with the next value, (1,)."""

    def __init__(self, seed: int, limit: int | None = None) -> None:
        self.seed, self.limit = seed, limit

    def __iter__(self) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
        generator = torch.Generator().manual_seed(self.seed)
        count = 0
        while self.limit is None or count < self.limit:
            frequency, phase = torch.rand(2, generator=generator)
            wave = torch.sin(torch.arange(49) * (0.2 + 0.4 * frequency) + 6.283 * phase)
            wave = 20 + 5 * wave + 0.1 * torch.randn(49, generator=generator)  # degrees
            yield wave[:-1].unsqueeze(1), wave[-1:]
            count += 1


class Forecaster(L.LightningModule):
    def __init__(self, hidden: int, lr: float) -> None:
        super().__init__()
        self.save_hyperparameters()
        self.gru = nn.GRU(1, hidden, batch_first=True)
        self.head = nn.Linear(hidden, 1)
        self.criterion = nn.HuberLoss()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        mean = x.mean(dim=1, keepdim=True)
        states, _ = self.gru((x - mean) / 5)
        return 5 * self.head(states[:, -1]) + mean.squeeze(2)

    def training_step(self, batch: list, batch_idx: int) -> torch.Tensor:
        x, y = batch
        loss = self.criterion(self(x), y)
        self.log("train_loss", loss)
        return loss

    def validation_step(self, batch: list, batch_idx: int) -> None:
        x, y = batch
        self.log("val_loss", self.criterion(self(x), y), batch_size=len(x))

    def configure_optimizers(self) -> dict:
        optimizer = torch.optim.RMSprop(self.parameters(), lr=self.hparams.lr)
        schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 0.998**step)
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": schedule, "interval": "step", "frequency": 1}}


@hydra.main(version_base="1.3", config_path="configs", config_name="train")
def main(cfg: DictConfig) -> None:
    L.seed_everything(cfg.seed)
    train = DataLoader(Sensor(seed=1), batch_size=cfg.batch_size)
    val = DataLoader(Sensor(seed=2, limit=64), batch_size=cfg.batch_size)
    callbacks = [instantiate(callback) for callback in cfg.callbacks.values()]
    trainer = L.Trainer(**cfg.trainer, callbacks=callbacks)
    trainer.fit(Forecaster(**cfg.model), train, val)


if __name__ == "__main__":
    main()
