import time
from itertools import product
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.data import Dataset, TensorDataset

from training_checklist.instruments import (
    Data,
    Example,
    Part,
    Roles,
    Split,
    Validated,
    by_index,
    load,
    normal,
    on_datasets,
    once,
    part,
)
from training_checklist.probe import CannotJudge, Fix, Hit, Hits, Limits, Probe, Threshold, each_held_out

SAMPLES = 128
FEW, DRAWS = 8, 6  # of a coin, 5 draws beside the first show the other side of each sample in 31 of 32 times
DRAWING = 1.0  # seconds
LIES = "as it lies"
TURNS = {
    "mirrored left to right": lambda target: target.flip(-1),
    "mirrored upside down": lambda target: target.flip(-2),
    "turned by 180 degrees": lambda target: target.flip(-1, -2),
    "turned by 90 degrees": lambda target: target.rot90(1, (-2, -1)),
    "turned by 270 degrees": lambda target: target.rot90(3, (-2, -1)),
}


@each_held_out
def detect(data: Data, split: Split, limits: Limits) -> Hits:
    alone = turned_alone(data, limits.turned_more, limits.map_rows)
    if alone:
        if split is data.held_out[0]:
            yield alone[0]
        return
    train, held = (fits_turned(part(data, each), data.roles, limits) for each in (data.train, split))
    if held.count(LIES) < len(held) / 2:  # they have too little in common to tell how they lie to one another
        return
    turned, others = ([turn for turn in each if turn in TURNS] for each in (train, held))
    if len(turned) / max(len(train), 1) > len(others) / max(len(held), 1) + limits.turned:
        yield Hit(
            f"{len(turned)} of {len(train)} targets of the training set would fit their image better if they were "
            f"{max(set(turned), key=turned.count)} or the like; {len(others)} of {len(held)} that are held out",
            data.train.place_of("__getitem__"),
        )


@once
def turned_alone(data: Data, margin: float, rows: int) -> list[Hit]:
    """Draw a few training samples several times: where an image is turned, its map or its boxes are to be, too."""
    until, indices, parts = time.monotonic() + DRAWING, by_index(data.train).chosen(FEW), []
    while len(parts) < DRAWS and (not parts or time.monotonic() < until):
        parts.append(load(data.train, indices, data.roles, data.trainer, until))
    drawn = {place: [each.of(place) for each in parts] for place in data.roles.places}
    images = {place: each for place, each in drawn.items() if place in data.roles.inputs and is_of_pixels(each, 4)}
    compared = {*data.roles.compared, data.roles.target}
    targets = {place: each for place, each in drawn.items() if place in compared and is_of_pixels(each, 2)}
    for (image, inputs), (target, held) in product(images.items(), targets.items()):
        boxes = are_boxes(held[0])
        if not (boxes or is_map_of(held[0], inputs[0], rows)) or bool((held[0] == held[0][:1]).all()):
            continue
        found = [
            turn
            for sample, other in product(range(len(indices)), range(1, len(parts)))
            if (turn := turn_of(inputs[0][sample], inputs[other][sample], margin))
            and torch.equal(held[0][sample], held[other][sample])
            and (boxes or not torch.equal(held[0][sample], TURNS[turn](held[0][sample])))
        ]
        if found:
            turned = max(set(found), key=found.count)
            what = f"of a training sample that was drawn several times, {image} is {turned} once, and {target} is not"
            return [Hit(what, data.train.place_of("__getitem__"))]
    return []


def is_of_pixels(drawn: list[Tensor | None], least: int) -> bool:
    """Whether a place of a batch has so many dimensions, and one shape whenever it is drawn."""
    return all(each is not None and each.ndim >= least and each.shape == drawn[0].shape for each in drawn)


def is_map_of(target: Tensor, image: Tensor, least: int) -> bool:
    """Whether a target, (..., H, W), has the proportions of an image: be it coarser, as the heat map of a detector."""
    (height, width), (rows, columns) = image.shape[-2:], target.shape[-2:]
    return target.ndim > 2 and height * columns == width * rows and min(rows, columns) >= least


def are_boxes(target: Tensor) -> bool:
    """Whether a target, (N, ..., 4), holds left, upper, right and lower ends, and zeros for what is none."""
    rows = target.reshape(-1, target.shape[-1])
    rows = rows[rows.bool().any(1)]
    many = len(rows) >= FEW  # of other numbers, so many are in this order once in 4 ** FEW times
    return many and rows.shape[1] == 4 and bool((rows[:, :2] < rows[:, 2:]).all())


def turn_of(image: Tensor, other: Tensor, margin: float) -> str:
    """Return how an image, (C, H, W), is to be turned to become the other one, "" where it is not."""
    known = {turn: likeness(of(image), other) for turn, of in TURNS.items() if of(image).shape == other.shape}
    best = max(known, key=known.__getitem__)
    return best if known[best] > likeness(image, other) + margin else ""


def likeness(one: Tensor, other: Tensor) -> float:
    """Return the share of the variance of an image that another one tells, whatever the brightness and the contrast."""
    parts = [each.double().flatten(1) for each in (one, other)]
    parts = [each - each.mean(1, keepdim=True) for each in parts]
    product_of_squares = parts[0].square().sum() * parts[1].square().sum()
    return float((parts[0] * parts[1]).sum().square() / product_of_squares.clamp_min(1e-300))


def fits_turned(part: Part, roles: Roles, limits: Limits) -> list[str]:
    """Return for each sample how its target would fit better, LIES where it does as it lies, "" where nothing tells.

    Raises:
        CannotJudge: targets are none of pixels.
    """
    images, targets = part.of(roles.input), part.of(target_of(roles))
    if images is None or targets is None or images.ndim != 4 or images.shape[-2:] != targets.shape[-2:]:
        raise CannotJudge("targets have no number for each pixel")
    targets = targets.reshape(len(targets), -1, *targets.shape[-2:])
    if targets.is_floating_point() and len(targets[:SAMPLES].unique()) > limits.pixel_classes:
        explained, targets = explained_by_shades, targets.mean(1, keepdim=True)
    elif targets.shape[1] == 1 and len(targets.unique()) <= limits.pixel_classes:
        explained = explained_by_classes
    else:
        raise CannotJudge("targets of pixels are neither classes nor shades")
    found = []
    for image, target in zip(images[:SAMPLES].double(), targets[:SAMPLES, 0], strict=True):
        known = {turn: explained(image, of(target)) for turn, of in TURNS.items() if of(target).shape == target.shape}
        best = max(known, key=known.__getitem__)
        gain = known[best] - explained(image, target)
        found.append(best if gain > limits.fits_better else LIES if gain < -limits.fits_better else "")
    return found


def target_of(roles: Roles) -> str | None:
    """Return the place of the targets, also where a loss by hand compares with them alone."""
    compared = [*roles.compared]
    return compared[0] if roles.target is None and len(compared) == 1 else roles.target


def explained_by_shades(image: Tensor, target: Tensor) -> float:
    """Return the share of the variance of an image's mean channel that the shades of its target, (H, W), tell."""
    return likeness(image.mean(0, keepdim=True), target[None])


def explained_by_classes(image: Tensor, target: Tensor) -> float:
    """Return the share of the variance of an image, (C, H, W), that is between the classes of its target, (H, W)."""
    pixels = image.flatten(1) - image.flatten(1).mean(1, keepdim=True)
    labels, index, counts = target.flatten().unique(return_inverse=True, return_counts=True)
    sums = torch.zeros(len(pixels), len(labels), dtype=pixels.dtype).index_add(1, index, pixels)
    return float((sums.square() / counts).sum() / pixels.square().sum().clamp_min(1e-300))


class Segmenter(Validated):
    """A class of up to 100 for each pixel."""

    def __init__(self) -> None:
        super().__init__()
        self.head = nn.Conv2d(1, 100, 3, padding=1)

    def forward(self, inputs: Tensor) -> Tensor:
        return self.head(inputs)


def mirrored(number: int, classes: int = 2, noise: float = 0.1) -> Example:
    """Return images with a class for each pixel, of which so many among 128 are mirrored and their classes are not."""

    def split(mirrored: int) -> TensorDataset:
        targets = normal(128, 8, 8).flatten().argsort().argsort().view(128, 8, 8) % classes
        images = 2 * targets[:, None] / classes + noise * normal(128, 1, 8, 8, seed=1)
        images[:mirrored] = images[:mirrored].flip(-1)
        return TensorDataset(images, targets)

    return on_datasets(lambda: split(number), lambda: split(0), module=Segmenter)


class Drawn(Dataset):
    """Images and maps of other numbers, mirrored together or, where the coin says so, each by itself."""

    def __init__(self, together: bool, noise: float = 0.0, rows: int = 8) -> None:
        self.images, self.maps = normal(128, 1, rows, rows), normal(128, rows, rows, seed=1).argsort()
        self.together, self.noise = together, noise

    def __len__(self) -> int:
        return len(self.images)

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        image, classes = self.images[index], self.maps[index]
        if torch.rand(()) < 0.5:
            image, classes = image.flip(-1), classes.flip(-1) if self.together else classes
        return image + self.noise * torch.randn_like(image), classes


class Boxed(Drawn):
    """An image with a box, of which the coin mirrors the image alone, or both."""

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        image, (left, upper, width, height) = self.images[index], 1 + self.maps[index, 0, :4] % 3
        if torch.rand(()) < 0.5:
            image, left = image.flip(-1), 8 - left - width if self.together else left
        return image, torch.stack([left, upper, left + width, upper + height]).float()


class Detector(Segmenter):
    def loss(self, answers: Tensor, targets: Tensor) -> Tensor:
        return nn.functional.l1_loss(answers.flatten(2).mean(2)[:, :4], targets)


class Fields(Segmenter):
    """Predicts what a field will be."""

    def loss(self, answers: Tensor, targets: Tensor) -> Tensor:
        return nn.functional.mse_loss(answers[:, :1], targets)


def waves() -> Example:
    """Return fields and what becomes of them: few of these are like what they came of, and then mirrored."""

    def split(reflected: int, seed: int) -> TensorDataset:
        fields, later = normal(128, 1, 8, 8, seed=seed), normal(128, 1, 8, 8, seed=seed + 1)
        later[:reflected] = fields[:reflected].flip(-1)
        return TensorDataset(fields, later)

    return on_datasets(lambda: split(40, 0), lambda: split(0, 2), module=Fields)


def drawn(together: bool, **options: Any) -> Example:
    return on_datasets(lambda: Drawn(together, **options), lambda: Drawn(True, **options), module=Segmenter)


PROBE = Probe(
    question="Is a target with a value for each pixel, or with boxes, flipped and rotated together with its image?",
    why="the network is taught what stands elsewhere in the image",
    fix=Fix(
        "draw once for both: torchvision.transforms.v2 with tv_tensors.Image and tv_tensors.Mask or BoundingBoxes does"
    ),
    detect=detect,
    faulty=mirrored(26),
    healthy=mirrored(6),
    also_faulty=(
        drawn(together=False),
        on_datasets(lambda: Boxed(together=False), lambda: Boxed(together=True), module=Detector),
    ),
    also_healthy=(drawn(together=True), waves()),
    thresholds={
        "pixel_classes": Threshold(
            64,
            "different whole numbers of a target, each a class of pixels; more are those of another map",
            faulty=mirrored(26, classes=40),
            healthy=mirrored(26, classes=90),
        ),
        "fits_better": Threshold(
            0.05,
            "share of an image's variance that a turned target explains besides, lest symmetric ones decide",
            faulty=mirrored(26, noise=1.3),
            healthy=mirrored(26, noise=1.6),
        ),
        "turned_more": Threshold(
            0.25,
            "share of an image's variance that it has in common with itself, turned, beyond what it has with itself: "
            "half of its correlation, as noise and shifts take the rest",
            faulty=drawn(together=False, noise=0.55),
            healthy=drawn(together=False, noise=2.0),
        ),
        "map_rows": Threshold(
            8,
            "rows of a map; less may be a matrix, as of a pose, or the corners of boxes",
            faulty=drawn(together=False),
            healthy=drawn(together=False, rows=4),
        ),
        "turned": Threshold(
            0.1, "share beyond that of held-out samples; one coin for the image alone turns half of them"
        ),
    },
)
