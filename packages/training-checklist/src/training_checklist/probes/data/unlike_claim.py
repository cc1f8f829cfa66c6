from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from training_checklist.instruments import (
    NEVER,
    Data,
    Example,
    MappedDataset,
    Validated,
    bytes_of_images,
    input_scale,
    on_datasets,
)
from training_checklist.probe import CannotJudge, Fix, Hit, Hits, Limits, Probe


def detect(data: Data, limits: Limits) -> Hits:
    inputs = input_scale(data)
    if inputs.claim is None or not inputs.pixels:
        raise CannotJudge("the project names no mean and std that images are normalised with")
    if inputs.altered:
        raise CannotJudge("what enters the network is more than images that are normalised, as noised ones are")
    looks = inputs.looks(*inputs.claim)
    is_target = data.roles.target == data.roles.input  # too, and its criterion may want pixels of 0..1
    if looks and not (looks == NEVER and is_target):
        mean, std = inputs.claim
        yield Hit(
            f"inputs have {inputs}, which fits this: {looks}; the project names mean {mean:.3g} and std {std:.3g}, "
            f"and images of 0..1 would lie between {-mean / std:.3g} and {(1 - mean) / std:.3g}",
            inputs.place,
        )


@dataclass
class Normalize:
    mean: float
    std: float

    def __call__(self, image: Tensor) -> Tensor:
        return (image - self.mean) / self.std


class Normalised(MappedDataset):
    def __init__(self, times: int) -> None:
        super().__init__(self.normalised, bytes_of_images())
        self.times, self.transform = times, Normalize(0.5, 0.29)

    def normalised(self, index: int, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        x = x.to(torch.float32) / 255
        for _ in range(self.times):
            x = self.transform(x)
        return x, y


class Restoring(Validated):
    """Compares its answers with the images themselves."""

    def loss(self, answers: Tensor, targets: Tensor) -> Tensor:
        return functional.binary_cross_entropy_with_logits(answers, targets)

    def training_step(self, batch: list[Tensor], batch_idx: int) -> Tensor:
        return self.loss(self(batch[0]).repeat(1, 2), batch[0])

    def validation_step(self, batch: list[Tensor], batch_idx: int) -> None:
        self.log("val/loss", self.training_step(batch, batch_idx))


def example(times: int, **options: Any) -> Example:
    return on_datasets(lambda: Normalised(times), **options)


PROBE = Probe(
    question="Are images normalised exactly once, with the mean and std that the project's config or transforms name?",
    why="weights and learning rates are made for inputs around 0 with a spread around 1",
    fix=Fix("normalise once, with mean and std of pixels in 0..1"),
    detect=detect,
    faulty=example(2),
    healthy=example(1),
    also_healthy=(example(0, module=Restoring),),
)
