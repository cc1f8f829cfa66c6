import hydra
import pytorch_lightning as pl
import torch
from hydra.utils import instantiate
from omegaconf import DictConfig
from torch import Tensor, nn, optim
from torch.utils.data import DataLoader, TensorDataset


class LitAutoEncoder(pl.LightningModule):
    def __init__(self, encoder: nn.Module, decoder: nn.Module) -> None:
        super().__init__()
        self.encoder = encoder
        self.decoder = decoder

    def training_step(self, batch: list[Tensor], batch_idx: int) -> Tensor:
        x, _ = batch
        x = x.view(x.size(0), -1)
        z = self.encoder(x)
        x_hat = self.decoder(z)
        loss = nn.functional.mse_loss(x_hat, x)
        self.log("train_loss", loss)
        return loss

    def configure_optimizers(self) -> optim.Optimizer:
        return optim.Adam(self.parameters(), lr=1e-3)


def images(samples: int) -> TensorDataset:
    """Grey images, (1, 28, 28), of a wave of some direction and length, from 0 to 1, with labels that say nothing."""
    generator = torch.Generator().manual_seed(0)
    y, x = torch.meshgrid(torch.linspace(0, 3, 28), torch.linspace(0, 3, 28), indexing="ij")
    fx, fy = torch.rand(2, samples, 1, 1, generator=generator)
    waves = 0.5 + 0.5 * torch.sin(3 * (fx * x + fy * y))
    return TensorDataset(waves.unsqueeze(1), torch.randint(10, (samples,), generator=generator))


@hydra.main(version_base="1.3", config_path="configs", config_name="train")
def main(cfg: DictConfig) -> None:
    pl.seed_everything(cfg.seed)
    encoder = nn.Sequential(nn.Linear(28 * 28, 64), nn.ReLU(), nn.Linear(64, 3))
    decoder = nn.Sequential(nn.Linear(3, 64), nn.ReLU(), nn.Linear(64, 28 * 28))
    train_loader = DataLoader(images(cfg.samples), batch_size=cfg.batch_size, shuffle=True, num_workers=cfg.num_workers)
    callbacks = [instantiate(callback) for callback in cfg.callbacks.values()]
    trainer = pl.Trainer(**cfg.trainer, callbacks=callbacks)
    trainer.fit(model=LitAutoEncoder(encoder, decoder), train_dataloaders=train_loader)


if __name__ == "__main__":
    main()
