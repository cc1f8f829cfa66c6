"""What configs may say of an image's shape."""

from collections.abc import Sequence
from typing import Annotated

from pydantic import Field, PositiveInt

ImageShape = Annotated[Sequence[PositiveInt], Field(title="[channels, height, width]", min_length=3, max_length=3)]
