"""Speakers told apart by angles, with a margin around the right one."""

import torch
from made import CLASSES, Splits, Task, rows
from pytorch_lightning import LightningDataModule, LightningModule
from torch import Tensor, nn
from torch.nn import functional

SOURCE = "pyannote/pyannote-audio 9639da99"
WRONG = "The margin is added in place to cosines that the gradient of the margin needs as they were."
LOUD = True
NAMED = {"crash": "with_margin|in place|in-place|inplace"}


class Speakers(Task):
    lr = 3e-3

    def __init__(self) -> None:
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 8))
        self.speakers = nn.Parameter(torch.randn(CLASSES, 8))

    def with_margin(self, cosines: Tensor, change: Tensor) -> Tensor:
        cosines += change
        return cosines

    def loss(self, batch: list[Tensor]) -> Tensor:
        sounds, speakers = batch
        cosines = functional.normalize(self.encoder(sounds)) @ functional.normalize(self.speakers).T
        right = functional.one_hot(speakers, CLASSES)
        sines = (1 - cosines.square()).clamp(min=1e-6).sqrt()
        moved = 0.98 * cosines - 0.2 * sines  # the cosine of an angle that is 0.2 larger
        return functional.cross_entropy(8 * self.with_margin(cosines, right * (moved - cosines)), speakers)


class Mended(Speakers):
    def with_margin(self, cosines: Tensor, change: Tensor) -> Tensor:
        return cosines + change


def parts(mended: bool) -> tuple[LightningModule, LightningDataModule]:
    return (Mended if mended else Speakers)(), Splits(rows(512, 1), rows(128, 5))
