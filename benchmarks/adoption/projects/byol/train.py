import copy

import hydra
import lightning as L
import torch
from hydra.utils import instantiate
from lightly.loss import NegativeCosineSimilarity
from lightly.models.modules import BYOLPredictionHead, BYOLProjectionHead
from lightly.models.utils import deactivate_requires_grad, update_momentum
from lightly.utils.scheduler import cosine_schedule
from omegaconf import DictConfig
from torch import nn
from torch.utils.data import DataLoader, Dataset
from torchvision.transforms import v2


class TwoViews(Dataset):
    def __init__(self, samples: int) -> None:
        generator = torch.Generator().manual_seed(0)
        coarse = torch.rand(samples, 3, 4, 4, generator=generator)
        self.images = nn.functional.interpolate(coarse, size=16, mode="bicubic")
        self.transform = v2.Compose(
            [v2.RandomResizedCrop(16, scale=(0.6, 1.0), antialias=True), v2.RandomHorizontalFlip()]
        )

    def __len__(self) -> int:
        return len(self.images)

    def __getitem__(self, index: int) -> tuple[list[torch.Tensor], int]:
        return [self.transform(self.images[index]), self.transform(self.images[index])], index


class BYOL(L.LightningModule):
    def __init__(self, lr: float) -> None:
        super().__init__()
        self.lr = lr
        self.backbone = nn.Sequential(
            nn.Conv2d(3, 32, 3, 2), nn.BatchNorm2d(32), nn.ReLU(), nn.Conv2d(32, 64, 3, 2), nn.ReLU(),
            nn.AdaptiveAvgPool2d(1), nn.Flatten(),
        )  # fmt: skip
        self.projection_head = BYOLProjectionHead(64, 128, 32)
        self.prediction_head = BYOLPredictionHead(32, 128, 32)
        self.backbone_momentum = copy.deepcopy(self.backbone)
        self.projection_head_momentum = copy.deepcopy(self.projection_head)
        deactivate_requires_grad(self.backbone_momentum)
        deactivate_requires_grad(self.projection_head_momentum)
        self.criterion = NegativeCosineSimilarity()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.prediction_head(self.projection_head(self.backbone(x)))

    def forward_momentum(self, x: torch.Tensor) -> torch.Tensor:
        return self.projection_head_momentum(self.backbone_momentum(x)).detach()

    def training_step(self, batch: tuple, batch_idx: int) -> torch.Tensor:
        momentum = cosine_schedule(self.current_epoch, 10, 0.996, 1)
        update_momentum(self.backbone, self.backbone_momentum, m=momentum)
        update_momentum(self.projection_head, self.projection_head_momentum, m=momentum)
        (x0, x1), _ = batch
        p0, z0 = self.forward(x0), self.forward_momentum(x0)
        p1, z1 = self.forward(x1), self.forward_momentum(x1)
        loss = 0.5 * (self.criterion(p0, z1) + self.criterion(p1, z0))
        self.log("loss", loss, prog_bar=True)
        return loss

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.SGD(self.parameters(), lr=self.lr, momentum=0.9)


@hydra.main(version_base="1.3", config_path="configs", config_name="train")
def main(cfg: DictConfig) -> None:
    L.seed_everything(cfg.seed)
    dataloader = DataLoader(TwoViews(cfg.samples), batch_size=cfg.batch_size, shuffle=True, drop_last=True)
    callbacks = [instantiate(callback) for callback in cfg.callbacks.values()]
    trainer = L.Trainer(**cfg.trainer, callbacks=callbacks)
    trainer.fit(model=BYOL(cfg.lr), train_dataloaders=dataloader)


if __name__ == "__main__":
    main()
