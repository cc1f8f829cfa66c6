"""Segmentation of images: python train.py +experiment=segmentation"""

from collections.abc import Callable

import torch
from pydantic import NonNegativeInt, PositiveInt
from pytorch_lightning import LightningDataModule, LightningModule
from torch import Tensor, nn
from torch.optim import Optimizer
from torch.utils.data import DataLoader, TensorDataset
from torchmetrics.classification import MulticlassJaccardIndex
from training_runs.sampling.epoch_sampler import EpochSampler

from digit_classifier.data.mnist import read_sample

Batch = tuple[Tensor, Tensor]


class CanvasData(LightningDataModule):
    """Canvases (B, 1, size, size) with digits at random places, and the class of each pixel (B, size, size).

    Class 0 is the background, class 1 + k the digit k. The digits of a canvas for training are on no other split's.
    """

    source = "mnist_sample on canvases"

    def __init__(self, size: PositiveInt, digits: PositiveInt, batch_size: PositiveInt, seed: NonNegativeInt) -> None:
        super().__init__()
        self.size, self.digits, self.batch_size, self.seed = size, digits, batch_size, seed

    def setup(self, stage: str) -> None:
        images, labels = read_sample(train=True)
        self.train_set = TensorDataset(*self.canvases(images[500:], labels[500:]))
        self.val_set = TensorDataset(*self.canvases(images[:500], labels[:500]))
        self.test_set = TensorDataset(*self.canvases(*read_sample(train=False)))

    def canvases(self, images: Tensor, labels: Tensor) -> Batch:
        """Paste each digit once, `self.digits` to a canvas; the later one covers the earlier."""
        generator = torch.Generator().manual_seed(0)
        count = len(labels) // self.digits
        canvases = torch.zeros(count, 1, self.size, self.size)
        classes = torch.zeros(count, self.size, self.size, dtype=torch.int64)
        places = torch.randint(self.size - 27, (count, self.digits, 2), generator=generator).tolist()
        for index in range(count):
            for number, (top, left) in enumerate(places[index]):
                digit = index * self.digits + number
                ink = images[digit, 0] > 64  # of 255: paler pixels are the edge of a stroke
                area = (slice(top, top + 28), slice(left, left + 28))
                canvases[index, 0][area][ink] = images[digit, 0][ink].float() / 255
                classes[index][area][ink] = labels[digit] + 1
        return (canvases - 0.06) / 0.22, classes  # mean and standard deviation of such canvases

    def train_dataloader(self) -> DataLoader:
        sampler = EpochSampler(self.train_set, self.batch_size, self.seed, self.trainer)  # resumes amid an epoch
        return DataLoader(self.train_set, batch_size=self.batch_size, sampler=sampler)

    def val_dataloader(self) -> DataLoader:
        return DataLoader(self.val_set, batch_size=self.batch_size)

    def test_dataloader(self) -> DataLoader:
        return DataLoader(self.test_set, batch_size=self.batch_size)


def stage(inputs: int, outputs: int) -> nn.Module:
    """Return a 3x3 convolution that keeps the size."""
    return nn.Sequential(nn.Conv2d(inputs, outputs, 3, padding=1, bias=False), nn.BatchNorm2d(outputs), nn.ReLU())


class Segmentation(LightningModule):
    """A U-Net of three resolutions (Ronneberger et al. 2015); sides of an image are multiples of 4."""

    def __init__(
        self, classes: PositiveInt, width: PositiveInt, criterion: nn.Module, optimizer: Callable[..., Optimizer]
    ) -> None:
        super().__init__()
        self.down1 = stage(1, width)
        self.down2 = nn.Sequential(nn.MaxPool2d(2), stage(width, 2 * width), stage(2 * width, 2 * width))
        self.down3 = nn.Sequential(nn.MaxPool2d(2), stage(2 * width, 4 * width), stage(4 * width, 4 * width))
        self.up2 = nn.Sequential(stage(6 * width, 2 * width), nn.Upsample(scale_factor=2))
        self.up3 = nn.Upsample(scale_factor=2)
        self.head = nn.Sequential(stage(3 * width, width), nn.Conv2d(width, classes, 1))
        self.criterion, self.optimizer = criterion, optimizer
        self.val_iou = MulticlassJaccardIndex(classes)
        self.test_iou = MulticlassJaccardIndex(classes)
        self.example_input_array = torch.zeros(2, 1, 48, 48)  # lets eval.py export=... know what it takes

    def forward(self, images: Tensor) -> Tensor:
        fine = self.down1(images)  # (B, 1, H, W) -> (B, width, H, W)
        middle = self.down2(fine)  # -> (B, 2 width, H/2, W/2)
        coarse = self.up3(self.down3(middle))  # -> (B, 4 width, H/4, W/4) -> (B, 4 width, H/2, W/2)
        up = self.up2(torch.cat([coarse, middle], dim=1))  # -> (B, 2 width, H, W)
        return self.head(torch.cat([up, fine], dim=1))  # -> (B, classes, H, W)

    def training_step(self, batch: Batch, batch_idx: int) -> Tensor:
        images, classes = batch
        loss = self.criterion(self(images), classes)
        self.log("train/loss", loss, on_step=False, on_epoch=True)
        return loss

    def validation_step(self, batch: Batch, batch_idx: int) -> None:
        images, classes = batch
        logits = self(images)
        self.val_iou.update(logits, classes)
        self.log("val/loss", self.criterion(logits, classes))
        self.log("val/iou", self.val_iou, prog_bar=True)

    def test_step(self, batch: Batch, batch_idx: int) -> None:
        images, classes = batch
        self.test_iou.update(self(images), classes)
        self.log("test/iou", self.test_iou)

    def predict_step(self, batch: Batch, batch_idx: int) -> Tensor:
        return self(batch[0]).argmax(dim=1)  # (B, H, W)

    def configure_optimizers(self) -> Optimizer:
        return self.optimizer(self.parameters())
