import hydra
import lightning as L
import torch
from hydra.utils import instantiate
from omegaconf import DictConfig
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Triplets(Dataset):
    """Anchor and positive are two noisy vectors of one prototype, the negative is one of another."""

    def __init__(self, samples: int, classes: int, seed: int) -> None:
        self.prototypes = torch.randn(classes, 32, generator=torch.Generator().manual_seed(0))
        self.samples, self.seed = samples, seed

    def __len__(self) -> int:
        return self.samples

    def __getitem__(self, index: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        generator = torch.Generator().manual_seed(self.seed * 100_000 + index)
        same, other = torch.randperm(len(self.prototypes), generator=generator)[:2]
        noise = torch.randn(3, 32, generator=generator)
        return (
            self.prototypes[same] + noise[0],
            self.prototypes[same] + noise[1],
            self.prototypes[other] + noise[2],
        )


class Embedder(L.LightningModule):
    def __init__(self, embedding: int, margin: float, lr: float) -> None:
        super().__init__()
        self.save_hyperparameters()
        self.net = nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, embedding))
        self.criterion = nn.TripletMarginLoss(margin=margin)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return nn.functional.normalize(self.net(x), dim=1)

    def training_step(self, batch: list, batch_idx: int) -> torch.Tensor:
        anchor, positive, negative = (self(part) for part in batch)
        loss = self.criterion(anchor, positive, negative)
        self.log("train/loss", loss, prog_bar=True)
        return loss

    def validation_step(self, batch: list, batch_idx: int) -> None:
        anchor, positive, negative = (self(part) for part in batch)
        right = (anchor - positive).norm(dim=1) < (anchor - negative).norm(dim=1)
        self.log_dict({"val/loss": self.criterion(anchor, positive, negative), "val/right": right.float().mean()})

    def configure_optimizers(self) -> dict:
        optimizer = torch.optim.SGD(self.parameters(), lr=self.hparams.lr, momentum=0.9, nesterov=True)
        warmup = torch.optim.lr_scheduler.LinearLR(optimizer, 0.1, 1.0, total_iters=2)
        cosine = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=6)
        scheduler = torch.optim.lr_scheduler.SequentialLR(optimizer, [warmup, cosine], milestones=[2])
        return {"optimizer": optimizer, "lr_scheduler": scheduler}


@hydra.main(version_base="1.3", config_path="configs", config_name="train")
def main(cfg: DictConfig) -> None:
    L.seed_everything(cfg.seed)
    train = DataLoader(Triplets(1024, cfg.classes, seed=1), cfg.batch_size, shuffle=True)
    val = DataLoader(Triplets(128, cfg.classes, seed=2), cfg.batch_size)
    callbacks = [instantiate(callback) for callback in cfg.callbacks.values()]
    trainer = L.Trainer(**cfg.trainer, callbacks=callbacks)
    trainer.fit(Embedder(**cfg.model), train, val)


if __name__ == "__main__":
    main()
