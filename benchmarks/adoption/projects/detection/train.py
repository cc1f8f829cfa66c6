import hydra
import lightning as L
import torch
from hydra.utils import instantiate
from omegaconf import DictConfig
from torch import nn
from torch.utils.data import DataLoader, Dataset
from torchmetrics.detection import IntersectionOverUnion
from torchvision.models.detection import FasterRCNN
from torchvision.models.detection.rpn import AnchorGenerator


class Boxes(Dataset):
    """Grey images with one to three filled rectangles: bright ones are class 1, dark ones class 2."""

    def __init__(self, samples: int, size: int, seed: int) -> None:
        generator = torch.Generator().manual_seed(seed)
        self.samples = []
        for _ in range(samples):
            image = 0.5 + 0.02 * torch.randn(3, size, size, generator=generator)
            count = int(torch.randint(1, 4, (), generator=generator))
            corner = torch.randint(size // 2, (count, 2), generator=generator)
            extent = torch.randint(size // 4, size // 2, (count, 2), generator=generator)
            labels = torch.randint(1, 3, (count,), generator=generator)
            for (x, y), (width, height), label in zip(corner, extent, labels, strict=True):
                image[:, y : y + height, x : x + width] = 1.0 if label == 1 else 0.0
            boxes = torch.cat([corner, corner + extent], dim=1).float()
            self.samples.append((image, {"boxes": boxes, "labels": labels}))

    def __len__(self) -> int:
        return len(self.samples)

    def __getitem__(self, index: int) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
        return self.samples[index]


def collate(batch: list) -> tuple:
    return tuple(zip(*batch, strict=True))


class Detector(L.LightningModule):
    def __init__(self, size: int, lr: float) -> None:
        super().__init__()
        self.lr = lr
        backbone = nn.Sequential(
            nn.Conv2d(3, 16, 3, stride=2, padding=1), nn.ReLU(),
            nn.Conv2d(16, 32, 3, stride=2, padding=1), nn.ReLU(),
            nn.Conv2d(32, 32, 3, stride=2, padding=1), nn.ReLU(),
        )  # fmt: skip
        backbone.out_channels = 32
        anchors = AnchorGenerator(sizes=((16, 32),), aspect_ratios=((0.5, 1.0, 2.0),))
        self.model = FasterRCNN(
            backbone, num_classes=3, rpn_anchor_generator=anchors, min_size=size, max_size=size,
            rpn_pre_nms_top_n_train=100, rpn_post_nms_top_n_train=50, box_batch_size_per_image=32,
        )  # fmt: skip
        self.iou = IntersectionOverUnion()

    def training_step(self, batch: tuple, batch_idx: int) -> torch.Tensor:
        images, targets = batch
        loss_dict = self.model(images, targets)
        loss = sum(loss_dict.values())
        self.log_dict({f"train/{name}": value for name, value in loss_dict.items()}, batch_size=len(images))
        return loss

    def validation_step(self, batch: tuple, batch_idx: int) -> None:
        images, targets = batch
        self.iou.update(self.model(images), list(targets))

    def on_validation_epoch_end(self) -> None:
        self.log("val/iou", self.iou.compute()["iou"])
        self.iou.reset()

    def configure_optimizers(self) -> torch.optim.Optimizer:
        params = [p for p in self.parameters() if p.requires_grad]
        return torch.optim.SGD(params, lr=self.lr, momentum=0.9, weight_decay=0.0005)


@hydra.main(version_base="1.3", config_path="configs", config_name="train")
def main(cfg: DictConfig) -> None:
    L.seed_everything(cfg.seed)
    train = DataLoader(Boxes(96, cfg.size, 1), batch_size=cfg.batch_size, shuffle=True, collate_fn=collate)
    val = DataLoader(Boxes(16, cfg.size, 2), batch_size=cfg.batch_size, collate_fn=collate)
    callbacks = [instantiate(callback) for callback in cfg.callbacks.values()]
    trainer = L.Trainer(**cfg.trainer, callbacks=callbacks)
    trainer.fit(Detector(cfg.size, cfg.lr), train, val)


if __name__ == "__main__":
    main()
