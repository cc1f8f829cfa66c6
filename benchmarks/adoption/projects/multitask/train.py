import hydra
import pytorch_lightning as pl
import torch
from hydra.utils import instantiate
from omegaconf import DictConfig
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Arrows(Dataset):
    """Grey images, (1, 24, 24), of a bar: its angle as sine and cosine, its brightness class, whether it is thick."""

    def __init__(self, samples: int, seed: int) -> None:
        generator = torch.Generator().manual_seed(seed)
        self.angle = 3.1416 * torch.rand(samples, generator=generator)
        self.bright = torch.randint(3, (samples,), generator=generator)
        self.thick = torch.rand(samples, generator=generator) < 0.3
        axis = torch.arange(24.0) - 11.5
        y, x = axis.view(1, 24, 1), axis.view(1, 1, 24)
        distance = (x * self.angle.sin().view(-1, 1, 1) - y * self.angle.cos().view(-1, 1, 1)).abs()
        bar = (distance < torch.where(self.thick, 4.0, 1.5).view(-1, 1, 1)).float()
        level = torch.tensor([0.4, 0.7, 1.0])[self.bright].view(-1, 1, 1)
        self.images = (bar * level + 0.05 * torch.randn(bar.shape, generator=generator)).unsqueeze(1)

    def __len__(self) -> int:
        return len(self.images)

    def __getitem__(self, index: int) -> dict:
        angle = torch.stack([(2 * self.angle[index]).sin(), (2 * self.angle[index]).cos()])
        targets = {"angle": angle, "bright": self.bright[index], "thick": self.thick[index].float()}
        return {"image": self.images[index], "targets": targets, "meta": {"index": index, "name": f"bar{index}"}}


class MultiTask(pl.LightningModule):
    def __init__(self, width: int, lr: float) -> None:
        super().__init__()
        self.save_hyperparameters()
        self.trunk = nn.Sequential(
            nn.Conv2d(1, width, 3, stride=2), nn.BatchNorm2d(width), nn.ReLU(),
            nn.Conv2d(width, width, 3, stride=2), nn.BatchNorm2d(width), nn.ReLU(), nn.Flatten(),
        )  # fmt: skip
        size = 25 * width
        self.heads = nn.ModuleDict(
            {"angle": nn.Linear(size, 2), "bright": nn.Linear(size, 3), "thick": nn.Linear(size, 1)}
        )
        self.log_vars = nn.Parameter(torch.zeros(3))  # weights of the tasks, after Kendall et al., arXiv:1705.07115

    def forward(self, image: torch.Tensor) -> dict[str, torch.Tensor]:
        features = self.trunk(image)
        return {name: head(features) for name, head in self.heads.items()}

    def losses(self, outputs: dict, targets: dict) -> torch.Tensor:
        angle = nn.functional.smooth_l1_loss(outputs["angle"], targets["angle"])
        bright = nn.functional.cross_entropy(outputs["bright"], targets["bright"])
        thick = nn.functional.binary_cross_entropy_with_logits(outputs["thick"].squeeze(1), targets["thick"])
        return torch.stack([angle, bright, thick])

    @torch.inference_mode()
    def accuracies(self, outputs: dict, targets: dict) -> dict[str, torch.Tensor]:
        return {
            "bright": (outputs["bright"].argmax(1) == targets["bright"]).float().mean(),
            "thick": ((outputs["thick"].squeeze(1) > 0) == targets["thick"].bool()).float().mean(),
        }

    def training_step(self, batch: dict, batch_idx: int) -> dict:
        outputs = self(batch["image"])
        losses = self.losses(outputs, batch["targets"])
        self.log_dict({f"train/{name}": value for name, value in self.accuracies(outputs, batch["targets"]).items()})
        return {"loss": ((-self.log_vars).exp() * losses + self.log_vars).sum(), "parts": losses.detach()}

    def validation_step(self, batch: dict, batch_idx: int) -> None:
        outputs = self(batch["image"])
        self.log("val/loss", self.losses(outputs, batch["targets"]).sum(), batch_size=len(batch["image"]))
        self.log_dict({f"val/{name}": value for name, value in self.accuracies(outputs, batch["targets"]).items()})

    def configure_optimizers(self) -> tuple[list, list]:
        optimizer = torch.optim.Adam(self.parameters(), lr=self.hparams.lr)
        return [optimizer], [torch.optim.lr_scheduler.MultiStepLR(optimizer, milestones=[3], gamma=0.3)]


@hydra.main(version_base="1.3", config_path="configs", config_name="train")
def main(cfg: DictConfig) -> None:
    pl.seed_everything(cfg.seed, workers=True)
    train = DataLoader(Arrows(768, seed=1), batch_size=cfg.batch_size, shuffle=True)
    val = DataLoader(Arrows(128, seed=2), batch_size=cfg.batch_size)
    callbacks = [instantiate(callback) for callback in cfg.callbacks.values()]
    trainer = pl.Trainer(**cfg.trainer, callbacks=callbacks)
    trainer.fit(MultiTask(**cfg.model), train, val)


if __name__ == "__main__":
    main()
