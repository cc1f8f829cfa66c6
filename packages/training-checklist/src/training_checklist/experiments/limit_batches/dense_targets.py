"""Whether targets with a number for each pixel lie on their images, or would fit them better turned or mirrored."""

import torch
from torch import Tensor

from training_checklist.evidence.values import PixelTargets
from training_checklist.lab.data import Part
from training_checklist.lab.roles import Roles

SAMPLES = 128
CLASSES = 64  # different numbers of a target, of which each is a class
CLEARLY = 0.05  # share of an image's variance that a turned target explains besides, lest symmetric ones decide
TURNS = {
    "mirrored left to right": lambda target: target.flip(-1),
    "mirrored upside down": lambda target: target.flip(-2),
    "turned by 180 degrees": lambda target: target.flip(-1, -2),
    "turned by 90 degrees": lambda target: target.rot90(1, (-2, -1)),
    "turned by 270 degrees": lambda target: target.rot90(3, (-2, -1)),
}


def pixel_targets(own: Part, other: Part, roles: Roles) -> PixelTargets | None:
    """Turn the targets of two splits; None where targets are none of pixels."""
    train, held = (fits_turned(part, roles) for part in (own, other))
    if train is None or held is None:
        return None
    turned = [turn for turn in train if turn]
    most = max(set(turned), key=turned.count) if turned else ""
    counts = len(train), len(turned), len(held), sum(map(bool, held))
    return PixelTargets(*counts, most, own.split.place_of("__getitem__"))


def fits_turned(part: Part, roles: Roles) -> list[str] | None:
    """Return for each sample how its target would fit better, "" where it lies as it should."""
    images, targets = part.of(roles.input), part.of(target_of(roles))
    if images is None or targets is None or images.ndim != 4 or images.shape[-2:] != targets.shape[-2:]:
        return None
    targets = targets.reshape(len(targets), -1, *targets.shape[-2:])
    if targets.is_floating_point() and len(targets[:SAMPLES].unique()) > CLASSES:
        explained, targets = explained_by_shades, targets.mean(1, keepdim=True)
    elif targets.shape[1] == 1 and len(targets.unique()) <= CLASSES:
        explained = explained_by_classes
    else:
        return None
    found = []
    for image, target in zip(images[:SAMPLES].double(), targets[:SAMPLES, 0], strict=True):
        known = {turn: explained(image, of(target)) for turn, of in TURNS.items() if of(target).shape == target.shape}
        best = max(known, key=known.__getitem__)
        found.append(best if known[best] > explained(image, target) + CLEARLY else "")
    return found


def target_of(roles: Roles) -> str | None:
    """Return the place of the targets, also where a loss by hand compares with them alone."""
    compared = [*roles.compared]
    return compared[0] if roles.target is None and len(compared) == 1 else roles.target


def explained_by_shades(image: Tensor, target: Tensor) -> float:
    """Return the share of the variance of an image's mean channel that the shades of its target, (H, W), tell."""
    together = torch.stack([image.mean(0).flatten(), target.double().flatten()])
    return float(torch.corrcoef(together)[0, 1].nan_to_num().square())


def explained_by_classes(image: Tensor, target: Tensor) -> float:
    """Return the share of the variance of an image, (C, H, W), that is between the classes of its target, (H, W)."""
    pixels = image.flatten(1) - image.flatten(1).mean(1, keepdim=True)
    labels, index, counts = target.flatten().unique(return_inverse=True, return_counts=True)
    sums = torch.zeros(len(pixels), len(labels), dtype=pixels.dtype).index_add(1, index, pixels)
    return float((sums.square() / counts).sum() / pixels.square().sum().clamp_min(1e-300))
