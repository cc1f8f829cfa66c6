from torch import Tensor

from training_checklist.instruments import (
    TWICE,
    Data,
    Example,
    InputScale,
    MappedDataset,
    bytes_of_images,
    input_scale,
    on_datasets,
)
from training_checklist.probe import FAILED, WARNING, CannotJudge, Fix, Hit, Hits, Limits, Probe, Threshold


def detect(data: Data, limits: Limits) -> Hits:
    inputs = input_scale(data)
    if not inputs.pixels:
        raise CannotJudge("inputs are no images of 8 bits, and other data may have any scale")
    whole = all(bool((each == each.round()).all()) for each in data.seen.entering)
    if whole and inputs.low >= 0 and 2 * inputs.high < 255:
        return  # no images of 8 bits, which have bright pixels somewhere, but codes, as of the cells of a grid
    far = inputs.std > limits.max_std or abs(inputs.mean) > limits.max_mean
    if inputs.claim is None and 0 < inputs.std < limits.min_std:
        yield Hit(f"images enter with {inputs}: their pixels were divided by 255 twice, or by as much", inputs.place)
    elif far and (inputs.claim is None or not inputs.looks(*inputs.claim)):  # which another probe says
        text, severity = explained(inputs)
        yield Hit(f"images enter with {inputs}: {text}", inputs.place, severity=severity)


def explained(inputs: InputScale) -> tuple[str, str]:
    if inputs.claim is not None:
        mean, std = inputs.claim
        return f"mean {mean:.3g} and std {std:.3g}, which the project names, are not those of its pixels", FAILED
    if inputs.low >= 0:
        return "as if they were never normalised", WARNING
    std = 1 / inputs.std  # of the second of two normalisations, after the first one has made it 1
    mean = -inputs.mean * std
    if 0 < mean < 1 and inputs.looks(mean, std) == TWICE:
        return f"their range fits that {TWICE}, with mean {mean:.2f} and std {std:.2f}", FAILED
    return "they were shifted and scaled, but not by their own mean and std", WARNING


def scaled(std: float, mean: float = 0.0) -> Example:
    """Return images of 8 bits with about that mean and deviation."""

    def change(index: int, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        return (x.float() - 128) / 74 * std + mean, y

    return on_datasets(lambda: MappedDataset(change, bytes_of_images()))


PROBE = Probe(
    question="Do images enter the network with a mean near 0 and a standard deviation near 1?",
    why="weights and learning rates are made for such inputs",
    severity=WARNING,
    may_be_wrong="a network whose first layer normalises, or one that was pretrained on pixels of 0..255, takes them "
    "as they are",
    fix=Fix("normalise once, with mean and std of the training set; or let the network begin with a norm"),
    detect=detect,
    faulty=scaled(4.0),
    healthy=scaled(1.2),
    also_healthy=(on_datasets(lambda: MappedDataset(lambda index, x, y: (x.float() % 10, y), bytes_of_images())),),
    thresholds={
        "max_std": Threshold(
            2.3, "pixels of 0..1 have a std of at most 0.5 (Popoviciu), and ImageNet's is 0.224: 2.23"
        ),
        "min_std": Threshold(
            0.01,
            "pixels of 0..1 that are divided by 255 once more, and then by a std of 0.2, have at most 0.5 / 255 / 0.2; "
            "a star in a black sky is still brighter",
            factor=1.5,
            faulty=scaled(0.008),
            healthy=scaled(0.012),
        ),
        "max_mean": Threshold(
            2.7,
            "white pixels under ImageNet's constants: (1 - 0.406) / 0.225 = 2.64",
            faulty=scaled(0.7, 5.0),
            healthy=scaled(0.7, 1.5),
        ),
    },
)
