import hydra
import torch
from hydra.utils import instantiate
from made import views
from omegaconf import DictConfig
from pytorch_lightning import LightningDataModule, LightningModule, Trainer, seed_everything
from torch import Tensor, distributed, nn
from torch.nn import functional
from torch.utils.data import DataLoader


class Views(LightningDataModule):
    def __init__(self, batch_size: int) -> None:
        super().__init__()
        self.batch_size = batch_size
        self.train, self.val = views(512, 1), views(128, 5)

    def train_dataloader(self) -> DataLoader:
        return DataLoader(self.train, self.batch_size, shuffle=True)

    def val_dataloader(self) -> DataLoader:
        return DataLoader(self.val, self.batch_size)


class Contrastive(LightningModule):
    def __init__(self, lr: float) -> None:
        super().__init__()
        self.lr = lr
        self.encoder = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 8))
        self.register_buffer("frequencies", torch.linspace(0.2, 3, 8))

    def spread(self, features: Tensor) -> Tensor:
        """Return how far the characteristic function of all ranks' features is from that of a normal distribution."""
        waves = features.unsqueeze(-1) * self.frequencies  # (B, 8) -> (B, 8, frequencies)
        sums, number = torch.stack([waves.cos().sum(0), waves.sin().sum(0)]), len(features)
        if distributed.is_initialized():
            distributed.all_reduce(sums)
            number = number * distributed.get_world_size()
        cosine, sine = sums / number
        return ((cosine - (-self.frequencies.square() / 2).exp()).square() + sine.square()).mean()

    def loss(self, batch: list[Tensor]) -> Tensor:
        first, second, _ = batch
        one, two = self.encoder(first), self.encoder(second)
        return functional.mse_loss(one, two) + self.spread(one) + self.spread(two)

    def training_step(self, batch: list[Tensor], batch_idx: int) -> Tensor:
        loss = self.loss(batch)
        self.log("train/loss", loss, sync_dist=True)
        return loss

    def validation_step(self, batch: list[Tensor], batch_idx: int) -> None:
        self.log("val/loss", self.loss(batch), sync_dist=True)

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.Adam(self.parameters(), lr=self.lr)


@hydra.main(version_base="1.3", config_path=".", config_name="config")
def main(cfg: DictConfig) -> None:
    seed_everything(cfg.seed)
    callbacks = [instantiate(callback) for callback in cfg.callbacks.values()]
    trainer = Trainer(**cfg.trainer, callbacks=callbacks)
    trainer.fit(Contrastive(cfg.model.lr), datamodule=instantiate(cfg.data))


if __name__ == "__main__":
    main()
