"""Images of any size that pass through transforms, in loader processes, before they are batched."""

from abc import abstractmethod
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Literal

import torch
from pydantic import FiniteFloat
from torch import Tensor
from torchvision.transforms.v2 import Compose
from training_config.errors import ConfigError
from training_runs.errors import DataError

from ..file_names import printable
from .image_files import as_tensor, in_channels, opened
from .labelled_images import Deviation, LabelledImages


class TransformedImages(LabelledImages):
    """Transforms in two lists, for training and for all else; mean and deviation given or found in the data.

    Args:
        train_transforms: from a Pillow image to a uint8 image of `image_shape`; what they draw at random follows from
            (seed, epoch, place of the sample).
        eval_transforms: the same for validation, testing and prediction, without anything random.
        mean: of each channel, of pixels scaled to 0..1; or auto.
        std: likewise.
        **images: as of `LabelledImages`.
    """

    def __init__(
        self,
        train_transforms: Sequence[Callable],
        eval_transforms: Sequence[Callable],
        mean: Literal["auto"] | Sequence[FiniteFloat],
        std: Literal["auto"] | Sequence[Deviation],
        **images: Any,
    ) -> None:
        super().__init__(**images)
        if self.image_shape[0] not in (1, 3):
            raise ConfigError(f"data.image_shape={list(self.image_shape)} must have 1 channel (grey) or 3 (colour)")
        if (mean == "auto") != (std == "auto"):
            raise ConfigError(f"data.mean={mean} and data.std={std}: auto is for both")
        self.statistics: tuple[list[float], list[float]] | None = None
        if mean != "auto":
            self.use_statistics(mean, std)
        shape = {"image_shape": self.image_shape}
        self.load_train_image = partial(read_transformed, transforms=train_transforms, name="train_transforms", **shape)
        self.load_image = partial(read_transformed, transforms=eval_transforms, name="eval_transforms", **shape)

    @abstractmethod
    def fingerprint(self) -> str:
        """Return a key that changes with which images there are, their labels and their parts."""

    def use_statistics(self, mean: Sequence[float], std: Sequence[float]) -> None:
        self.statistics = list(mean), list(std)
        self.normalise_by(*self.statistics)

    def state_dict(self) -> dict[str, Any]:
        mean, std = self.statistics
        # What of the config was found in the data: evaluation and a resumed run take it from here.
        found = {"class_names": self.class_names, "num_classes": self.num_classes, "mean": mean, "std": std}
        return super().state_dict() | {"images": self.fingerprint(), "found": found}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        super().load_state_dict(state_dict)
        if state_dict["images"] != self.fingerprint():
            raise DataError(
                f"{self.source} has other images than when this run began: put back what it had, or start a new run"
            )
        self.use_statistics(state_dict["found"]["mean"], state_dict["found"]["std"])


def read_transformed(
    path: Path, transforms: Sequence[Callable], name: str, image_shape: Sequence[int], content: bytes | None = None
) -> Tensor:
    """Return (C, H, W) uint8: the image in grey or colour, after `transforms`."""
    with opened(path, content) as image:
        picture = in_channels(image, image_shape[0])
    try:
        transformed = Compose(transforms)(picture)
        pixels = transformed if isinstance(transformed, Tensor) else as_tensor(transformed)
        pixels = pixels.as_subclass(Tensor)
    except Exception as error:  # as many kinds as there are transforms
        error.add_note(f"data.{name}, of {printable(str(path))}: {picture.width} x {picture.height} pixels")
        raise
    if pixels.dtype != torch.uint8 or tuple(pixels.shape) != tuple(image_shape):
        raise ConfigError(
            f"data.{name} give {list(pixels.shape)} {pixels.dtype} of an image; they must give {list(image_shape)} "
            "torch.uint8, as data.image_shape says: data.mean and data.std come after, on the device"
        )
    return pixels
