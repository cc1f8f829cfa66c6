import math
from collections.abc import Sequence
from itertools import pairwise

from pydantic import PositiveInt
from torch import Tensor, nn
from training_config.values import Fraction

from ..image_shape import ImageShape


class MLP(nn.Module):
    """Fully connected layers with ReLU and dropout between: the smallest network worth comparing with."""

    def __init__(
        self,
        image_shape: ImageShape,
        num_classes: PositiveInt,
        hidden_sizes: Sequence[PositiveInt],
        dropout: Fraction,
    ) -> None:
        super().__init__()
        sizes = [math.prod(image_shape), *hidden_sizes]
        self.hidden = nn.Sequential(
            *(
                nn.Sequential(nn.Linear(fan_in, fan_out), nn.ReLU(), nn.Dropout(dropout))
                for fan_in, fan_out in pairwise(sizes)
            )
        )
        self.head = nn.Linear(sizes[-1], num_classes)

    def forward(self, images: Tensor) -> Tensor:
        return self.head(self.hidden(images.flatten(1)))  # (B, C, H, W) -> (B, C * H * W) -> (B, num_classes)
