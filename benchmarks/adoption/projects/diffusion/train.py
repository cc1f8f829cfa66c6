import hydra
import lightning as L
import torch
from hydra.utils import instantiate
from omegaconf import DictConfig
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Diffusion(L.LightningModule):
    """Predicts the noise that was added to points of the plane, as in Ho et al., arXiv:2006.11239."""

    def __init__(self, steps: int, width: int, lr: float) -> None:
        super().__init__()
        self.save_hyperparameters()
        betas = torch.linspace(1e-4, 0.02, steps)
        self.register_buffer("alphas_bar", torch.cumprod(1 - betas, dim=0))
        self.time_embedding = nn.Embedding(steps, width)
        self.inputs = nn.Linear(2, width)
        self.net = nn.Sequential(nn.SiLU(), nn.Linear(width, width), nn.SiLU(), nn.Linear(width, 2))

    def forward(self, x: torch.Tensor, t: torch.Tensor) -> torch.Tensor:
        return self.net(self.inputs(x) + self.time_embedding(t))

    def _loss(self, batch: list[torch.Tensor]) -> torch.Tensor:
        (x,) = batch
        t = torch.randint(self.hparams.steps, (len(x),), device=self.device)
        noise = torch.randn_like(x)
        kept = self.alphas_bar[t].unsqueeze(1)
        return nn.functional.mse_loss(self(kept.sqrt() * x + (1 - kept).sqrt() * noise, t), noise)

    def training_step(self, batch: list[torch.Tensor], batch_idx: int) -> torch.Tensor:
        loss = self._loss(batch)
        self.log("train/loss", loss)
        return loss

    def validation_step(self, batch: list[torch.Tensor], batch_idx: int) -> None:
        self.log("val/loss", self._loss(batch))

    def configure_optimizers(self) -> dict:
        optimizer = torch.optim.Adam(self.parameters(), lr=self.hparams.lr)
        scheduler = torch.optim.lr_scheduler.ExponentialLR(optimizer, gamma=0.95)
        return {"optimizer": optimizer, "lr_scheduler": scheduler}


@hydra.main(version_base="1.3", config_path="configs", config_name="train")
def main(cfg: DictConfig) -> None:
    L.seed_everything(cfg.seed)
    angle = 9 * torch.rand(2304, 1, generator=torch.Generator().manual_seed(0)) + 2
    points = torch.cat([angle * angle.cos(), angle * angle.sin()], dim=1) / 6  # a spiral
    train = DataLoader(TensorDataset(points[:2048]), batch_size=cfg.batch_size, shuffle=True)
    val = DataLoader(TensorDataset(points[2048:]), batch_size=cfg.batch_size)
    callbacks = [instantiate(callback) for callback in cfg.callbacks.values()]
    trainer = L.Trainer(**cfg.trainer, callbacks=callbacks)
    trainer.fit(Diffusion(**cfg.model), train, val)


if __name__ == "__main__":
    main()
