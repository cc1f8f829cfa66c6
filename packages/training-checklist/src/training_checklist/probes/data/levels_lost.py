import torch
from torch import Tensor, nn

from training_checklist.instruments import (
    Data,
    Example,
    MappedDataset,
    Validated,
    as_array,
    bytes_of_images,
    input_scale,
    on_datasets,
    stored,
)
from training_checklist.probe import WARNING, Fix, Hit, Hits, Limits, Probe, Threshold


def detect(data: Data, limits: Limits) -> Hits:
    inputs = input_scale(data)
    if is_cut_elsewhere(data):
        return
    # Pixels that a criterion compares with yes and no are rounded on purpose.
    if inputs.levels == 2 and inputs.stored >= limits.stored_levels and not data.seen.restored:
        yield Hit(
            f"samples enter the network with two different values at most, and are kept with up to {inputs.stored}",
            inputs.place,
        )


def is_cut_elsewhere(data: Data) -> bool:
    """Whether more pixels are white than those of the greatest value that is stored, by far: nearer to half of them.

    An integer division leaves these alone; a threshold, or spikes that are drawn, are made on purpose.
    """
    rows = [torch.as_tensor(as_array(each)).double() for each in stored(data.train) if hasattr(each, "dtype")]
    if not rows:
        return False
    top, entered = max(float(each.max()) for each in rows), torch.cat([each.flatten() for each in data.seen.entering])
    white = float((entered == entered.max()).double().mean())
    shares = ([float((each >= least).double().mean()) for each in rows] for least in (top, top / 2))
    of_top, of_half = (sum(each) / len(rows) for each in shares)
    return white > (of_top * of_half) ** 0.5


class Larger(Validated):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(256, 16)


def of_levels(number: int) -> Example:
    """Return images that are kept with so many shades, and enter in black and white."""

    def change(index: int, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        return (x // 255).float(), y

    def split() -> MappedDataset:
        return MappedDataset(change, bytes_of_images(256, number))

    return on_datasets(split, split, module=Larger)


def thresholded() -> MappedDataset:
    return MappedDataset(lambda index, x, y: ((x > 127).float(), y), bytes_of_images(256, 30))


class StepByStep(Validated):
    """Goes through a series, of which two numbers enter at a time."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(2, 16)

    def forward(self, inputs: Tensor) -> Tensor:
        steps = inputs.float().unfold(1, 2, 2).transpose(0, 1)
        return self.head(sum(self.first(step).relu() for step in steps))


PROBE = Probe(
    question="Do images keep all the grey levels that they are stored with on their way into the network?",
    why="the network sees black and white alone, where grey was stored",
    severity=WARNING,
    fix=Fix("divide after the conversion to float: images.float() / 255, and not images // 255"),
    detect=detect,
    faulty=of_levels(30),
    healthy=of_levels(8),
    also_healthy=(
        on_datasets(*[thresholded] * 2, module=Larger),
        on_datasets(*[lambda: bytes_of_images(32, 30)] * 2, module=StepByStep),
    ),
    thresholds={
        "stored_levels": Threshold(16, "different values in a sample: of black and white, smoothed, a few are left")
    },
)
