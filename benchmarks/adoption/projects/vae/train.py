import hydra
import lightning as L
import torch
from hydra.utils import instantiate
from omegaconf import DictConfig
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset


class VAE(L.LightningModule):
    def __init__(self, latent: int, beta: float, lr: float) -> None:
        super().__init__()
        self.save_hyperparameters()
        self.encoder = nn.Sequential(nn.Flatten(), nn.Linear(256, 128), nn.ReLU())
        self.mean, self.log_var = nn.Linear(128, latent), nn.Linear(128, latent)
        self.decoder = nn.Sequential(nn.Linear(latent, 128), nn.ReLU(), nn.Linear(128, 256))

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        hidden = self.encoder(x)
        mean, log_var = self.mean(hidden), self.log_var(hidden)
        z = mean + torch.randn_like(mean) * (0.5 * log_var).exp()
        return self.decoder(z), mean, log_var

    def _loss(self, batch: list[torch.Tensor]) -> dict[str, torch.Tensor]:
        (x,) = batch
        logits, mean, log_var = self(x)
        recon = F.binary_cross_entropy_with_logits(logits, x.flatten(1), reduction="none").sum(1).mean()
        kl = -0.5 * (1 + log_var - mean.square() - log_var.exp()).sum(1).mean()
        return {"loss": recon + self.hparams.beta * kl, "recon": recon.detach(), "kl": kl.detach()}

    def training_step(self, batch: list[torch.Tensor], batch_idx: int) -> dict[str, torch.Tensor]:
        parts = self._loss(batch)
        self.log_dict({f"train/{name}": value for name, value in parts.items()})
        return parts

    def validation_step(self, batch: list[torch.Tensor], batch_idx: int) -> None:
        self.log_dict({f"val/{name}": value for name, value in self._loss(batch).items()}, prog_bar=True)

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.Adam(self.parameters(), lr=self.hparams.lr)


class Blobs(L.LightningDataModule):
    """Images of one bright disc, 16 by 16, values between 0 and 1."""

    def __init__(self, batch_size: int) -> None:
        super().__init__()
        self.batch_size = batch_size

    def setup(self, stage: str) -> None:
        generator = torch.Generator().manual_seed(3)
        centres = 4 + 8 * torch.rand(1280, 2, 1, 1, generator=generator)
        axis = torch.arange(16.0)
        squares = (axis.view(1, 16, 1) - centres[:, 0]) ** 2 + (axis.view(1, 1, 16) - centres[:, 1]) ** 2
        images = torch.exp(-squares / 8).unsqueeze(1)  # (N, 1, 16, 16)
        self.train, self.val = TensorDataset(images[:1024]), TensorDataset(images[1024:])

    def train_dataloader(self) -> DataLoader:
        return DataLoader(self.train, self.batch_size, shuffle=True)

    def val_dataloader(self) -> DataLoader:
        return DataLoader(self.val, self.batch_size)


@hydra.main(version_base="1.3", config_path="configs", config_name="train")
def main(cfg: DictConfig) -> None:
    L.seed_everything(cfg.seed)
    callbacks = [instantiate(callback) for callback in cfg.callbacks.values()]
    trainer = L.Trainer(**cfg.trainer, callbacks=callbacks)
    trainer.fit(VAE(**cfg.model), datamodule=Blobs(**cfg.data))


if __name__ == "__main__":
    main()
