from torch import Tensor

from training_checklist.instruments import (
    Data,
    Example,
    MappedDataset,
    Split,
    differ,
    labelled,
    normal,
    on_datasets,
    part,
    scale_of,
    typical,
)
from training_checklist.probe import REMARK, Fix, Hit, Hits, Limits, Probe, Threshold, each_held_out


@each_held_out
def detect(data: Data, split: Split, limits: Limits) -> Hits:
    for name in sorted(data.roles.inputs):
        one, two = (scale_of(part(data, each).of(name)) for each in (data.train, split))
        if one and two and differ(one, two, limits.max_shift, limits.max_ratio):
            own = [typical(part(data, each).values[name]) for each in (data.train, split)]
            if not differ(*own, limits.max_shift, limits.max_ratio):
                continue  # a few samples, to which an augmentation adds much, make the difference
            others = (scale_of(part(data, each).of(name)) for each in beside(data, split))
            is_one_of_several = any(it and not differ(one, it, limits.max_shift, limits.max_ratio) for it in others)
            yield Hit(
                f"inputs of {data.train.name} have mean {one.mean:.2f} and std {one.std:.2f}, those of "
                f"{split.name} {two.mean:.2f} and {two.std:.2f}",
                split.place if name == data.roles.input else split.place.beside(note=name),
                severity=REMARK if is_one_of_several else None,  # one that is meant to differ, beside one that does not
            )


def beside(data: Data, split: Split) -> list[Split]:
    """Return the other loaders of the split's stage."""
    return [each for each in data.held_out if each.stage == split.stage and each is not split]


def shaken() -> Example:
    """Add much to one training sample in five, as a baseline that wanders."""

    def change(index: int, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        return x + (8 * normal(8, seed=index) if index % 5 == 0 else 0), y

    return on_datasets(lambda: MappedDataset(change, labelled(500)), lambda: labelled(500))


def scaled(factor: float = 1.0, shift: float = 0.0) -> Example:
    def change(index: int, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        return factor * x + shift, y

    return on_datasets(lambda: labelled(500), lambda: MappedDataset(change, labelled(500)))


def later() -> Example:
    """Hold out the last part of a time that enters as a number."""

    def change(first: int) -> MappedDataset:
        return MappedDataset(lambda index, x, y: (x * 0 + (first + index) / 500, y), labelled(100 if first else 500))

    return on_datasets(lambda: change(0), lambda: change(500))


PROBE = Probe(
    question="Do inputs have the same scale in all splits?",
    why="the network is trained on one scale and validated on another: validation looks worse than it is",
    may_be_wrong="a split by time or by site may differ in scale, and its inputs then tell what awaits the network",
    fix=Fix("let all splits go through the same normalisation"),
    detect=detect,
    faulty=scaled(shift=1.0),
    healthy=scaled(shift=0.5),
    also_healthy=(shaken(), later()),
    thresholds={
        "max_shift": Threshold(
            0.5,
            "standard deviations between the means, beyond drift and error; crops, erasing and noise moved digits, "
            "tables and spectrograms by at most 0.3",
        ),
        "max_ratio": Threshold(
            1.6,
            "between standard deviations; mixing two samples half and half lowers it by the square root of 2",
            factor=1.3,
            faulty=scaled(1.85),
            healthy=scaled(1.45),
        ),
    },
)
