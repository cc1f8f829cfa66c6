"""RealNVP on two moons."""

import math

import hydra
import pytorch_lightning as pl
import torch
from hydra.utils import instantiate
from omegaconf import DictConfig
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def moons(n: int, noise: float, seed: int) -> torch.Tensor:
    g = torch.Generator().manual_seed(seed)
    angle = math.pi * torch.rand(n, generator=g)
    upper = torch.rand(n, generator=g) < 0.5
    x = torch.where(upper, angle.cos(), 1 - angle.cos())
    y = torch.where(upper, angle.sin(), 0.5 - angle.sin())
    points = torch.stack([x, y], 1) + noise * torch.randn(n, 2, generator=g)
    return (points - torch.tensor([0.5, 0.25])) / torch.tensor([0.87, 0.5])


class Coupling(nn.Module):
    def __init__(self, hidden: int, flip: bool) -> None:
        super().__init__()
        self.register_buffer("mask", torch.tensor([0.0, 1.0] if flip else [1.0, 0.0]))
        self.scale = nn.Sequential(nn.Linear(2, hidden), nn.Tanh(), nn.Linear(hidden, 2), nn.Tanh())
        self.shift = nn.Sequential(nn.Linear(2, hidden), nn.LeakyReLU(), nn.Linear(hidden, 2))
        for net in (self.scale, self.shift):  # begin as the identity
            last = [m for m in net if isinstance(m, nn.Linear)][-1]
            nn.init.zeros_(last.weight)
            nn.init.zeros_(last.bias)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        kept = x * self.mask
        s = self.scale(kept) * (1 - self.mask)
        t = self.shift(kept) * (1 - self.mask)
        return kept + (1 - self.mask) * (x * s.exp() + t), s.sum(dim=1)


class RealNVP(pl.LightningModule):
    def __init__(self, layers: int, hidden: int, optimizer: DictConfig) -> None:
        super().__init__()
        self.flows = nn.ModuleList(Coupling(hidden, flip=bool(i % 2)) for i in range(layers))
        self.optimizer = optimizer
        self.base = torch.distributions.Normal(0.0, 1.0)

    def log_prob(self, x: torch.Tensor) -> torch.Tensor:
        total = x.new_zeros(len(x))
        for flow in self.flows:
            x, log_det = flow(x)
            total = total + log_det
        return self.base.log_prob(x).sum(dim=1) + total

    def training_step(self, batch: list[torch.Tensor], batch_idx: int) -> torch.Tensor:
        (x,) = batch
        loss = -self.log_prob(x).mean()
        self.log("train/nll", loss)
        return loss

    def validation_step(self, batch: list[torch.Tensor], batch_idx: int) -> None:
        self.log("val/nll", -self.log_prob(batch[0]).mean(), prog_bar=True)

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return instantiate(self.optimizer, params=self.parameters())


@hydra.main(version_base="1.3", config_path="configs", config_name="train")
def main(cfg: DictConfig) -> None:
    pl.seed_everything(cfg.seed)
    train = DataLoader(TensorDataset(moons(cfg.samples, cfg.noise, 1)), cfg.batch_size, shuffle=True)
    val = DataLoader(TensorDataset(moons(cfg.samples // 5, cfg.noise, 2)), cfg.batch_size)
    model = RealNVP(**cfg.model)
    trainer = pl.Trainer(**cfg.trainer, callbacks=[instantiate(c) for c in cfg.callbacks.values()])
    trainer.fit(model, train, val)


if __name__ == "__main__":
    main()
