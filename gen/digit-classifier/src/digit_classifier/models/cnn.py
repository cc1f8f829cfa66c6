from pydantic import PositiveInt
from torch import Tensor, nn
from training_config.errors import ConfigError
from training_config.values import Fraction

from ..image_shape import ImageShape


class CNN(nn.Module):
    """Three 5x5 convolutions and a linear head. Shapes below are for a (1, 28, 28) image and 10 classes.

    Raises:
        ConfigError: the image is too small for three unpadded 5x5 convolutions and two poolings.
    """

    def __init__(self, image_shape: ImageShape, num_classes: PositiveInt, dropout: Fraction) -> None:
        super().__init__()
        channels, height, width = image_shape
        rows, columns = (((side - 8) // 2 - 4) // 2 for side in (height, width))
        if min(rows, columns) < 1:
            raise ConfigError(f"data.image_shape={list(image_shape)} is too small for this network; 20x20 is the least")
        # (B, 1, 28, 28) -> (B, 16, 24, 24)
        self.stage1 = nn.Sequential(nn.Conv2d(channels, 16, kernel_size=5), nn.ReLU())
        # -> (B, 32, 20, 20) -> (B, 32, 10, 10)
        self.stage2 = nn.Sequential(nn.Conv2d(16, 32, kernel_size=5), nn.ReLU(), nn.MaxPool2d(2), nn.Dropout(dropout))
        # -> (B, 64, 6, 6) -> (B, 64, 3, 3)
        self.stage3 = nn.Sequential(nn.Conv2d(32, 64, kernel_size=5), nn.ReLU(), nn.MaxPool2d(2), nn.Dropout(dropout))
        self.head = nn.Linear(64 * rows * columns, num_classes)

    def forward(self, images: Tensor) -> Tensor:
        features = self.stage3(self.stage2(self.stage1(images)))
        return self.head(features.flatten(1))  # (B, 576) -> (B, 10)
