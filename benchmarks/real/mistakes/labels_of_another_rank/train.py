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
    gather = False

    def __init__(self, lr: float) -> None:
        super().__init__()
        self.lr = lr
        self.encoder = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 8))

    def rank(self) -> int:
        return distributed.get_rank() if distributed.is_initialized() else 0

    def loss(self, batch: list[Tensor]) -> Tensor:
        first, second, _ = batch
        one, two = (functional.normalize(self.encoder(each)) for each in (first, second))
        others = self.all_gather(two).flatten(0, 1) if self.gather else two
        logits = torch.cat([one @ others.T, (one @ one.T).fill_diagonal_(-10)], dim=1) / 0.5
        labels = torch.arange(len(one), device=self.device)
        labels = labels + self.rank() * len(one)
        return functional.cross_entropy(logits, labels)

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
