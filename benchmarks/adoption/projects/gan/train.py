import hydra
import lightning as L
import torch
from hydra.utils import instantiate
from omegaconf import DictConfig
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset


def mlp(inputs: int, outputs: int, width: int) -> nn.Sequential:
    return nn.Sequential(
        nn.Linear(inputs, width),
        nn.LeakyReLU(0.2),
        nn.Linear(width, width),
        nn.LeakyReLU(0.2),
        nn.Linear(width, outputs),
    )


class GAN(L.LightningModule):
    def __init__(self, latent_dim: int, width: int, lr: float, b1: float, b2: float) -> None:
        super().__init__()
        self.save_hyperparameters()
        self.automatic_optimization = False
        self.generator = mlp(latent_dim, 2, width)
        self.discriminator = mlp(2, 1, width)

    def forward(self, z: torch.Tensor) -> torch.Tensor:
        return self.generator(z)

    def training_step(self, batch: list[torch.Tensor]) -> None:
        (real,) = batch
        optimizer_g, optimizer_d = self.optimizers()
        z = torch.randn(len(real), self.hparams.latent_dim).type_as(real)

        self.toggle_optimizer(optimizer_g)
        g_loss = F.softplus(-self.discriminator(self(z))).mean()
        self.manual_backward(g_loss)
        optimizer_g.step()
        optimizer_g.zero_grad()
        self.untoggle_optimizer(optimizer_g)

        self.toggle_optimizer(optimizer_d)
        fake = self(z).detach()
        d_loss = F.softplus(-self.discriminator(real)).mean() + F.softplus(self.discriminator(fake)).mean()
        self.manual_backward(d_loss)
        optimizer_d.step()
        optimizer_d.zero_grad()
        self.untoggle_optimizer(optimizer_d)
        distance = (fake.mean(0) - real.mean(0)).norm() + (fake.std(0) - real.std(0)).norm()
        self.log_dict({"g_loss": g_loss, "d_loss": d_loss, "distance": distance}, prog_bar=True)

    def configure_optimizers(self) -> tuple[list[torch.optim.Optimizer], list]:
        betas = (self.hparams.b1, self.hparams.b2)
        opt_g = torch.optim.Adam(self.generator.parameters(), lr=self.hparams.lr, betas=betas)
        opt_d = torch.optim.Adam(self.discriminator.parameters(), lr=self.hparams.lr, betas=betas)
        return [opt_g, opt_d], []


class Ring(L.LightningDataModule):
    def __init__(self, samples: int, batch_size: int) -> None:
        super().__init__()
        self.samples, self.batch_size = samples, batch_size

    def setup(self, stage: str | None = None) -> None:
        angle = 2 * torch.pi * torch.rand(self.samples, generator=torch.Generator().manual_seed(0))
        self.points = torch.stack([2 * angle.cos() + 1, 2 * angle.sin()], dim=1)

    def train_dataloader(self) -> DataLoader:
        return DataLoader(TensorDataset(self.points), self.batch_size, shuffle=True)


@hydra.main(version_base="1.3", config_path="configs", config_name="train")
def main(cfg: DictConfig) -> None:
    L.seed_everything(cfg.seed)
    callbacks = [instantiate(callback) for callback in cfg.callbacks.values()]
    trainer = L.Trainer(**cfg.trainer, callbacks=callbacks)
    trainer.fit(GAN(**cfg.model), Ring(**cfg.data))


if __name__ == "__main__":
    main()
