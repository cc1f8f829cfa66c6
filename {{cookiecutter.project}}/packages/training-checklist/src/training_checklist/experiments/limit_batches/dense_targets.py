"""Whether targets with a number for each pixel are turned and mirrored as their images are."""

import time

import torch
from torch import Tensor

from training_checklist.engines.replay import seed_all
from training_checklist.engines.splits import Split
from training_checklist.evidence.values import Followed
from training_checklist.experiments.limit_batches.roles import Roles
from training_checklist.experiments.limit_batches.samples import load
from training_checklist.lightning import Trainer, isolate_rng

SAMPLES = 24
SEEDS = 3  # of two draws of a coin, one in four mirrors what the other does not
LIKE = 0.9  # correlation of two images that show the same; noise and brightness leave more
UNLIKE = 0.05  # by which the next best way to turn an image must be worse, lest symmetric ones decide
TURNS = {
    "left as it is": lambda image: image,
    "mirrored left to right": lambda image: image.flip(-1),
    "mirrored upside down": lambda image: image.flip(-2),
    "turned by 180 degrees": lambda image: image.flip(-1, -2),
    "mirrored at a diagonal": lambda image: image.transpose(-1, -2),
    "turned by 90 degrees": lambda image: image.rot90(1, (-2, -1)),
    "turned by 270 degrees": lambda image: image.rot90(3, (-2, -1)),
    "mirrored at the other diagonal": lambda image: image.rot90(1, (-2, -1)).flip(-1),
}


def followed(split: Split, roles: Roles, trainer: Trainer, until: float) -> Followed | None:
    """Load samples with several seeds; None where targets are none of pixels."""
    if not split.indexable or roles.input is None or roles.target is None:
        return None
    moved = same = 0
    first = ""
    for index in split.chosen(SAMPLES):
        draws = []
        for seed in range(SEEDS):
            with isolate_rng():
                seed_all(SEEDS * index + seed)  # of one seed for all, every draw would be the same
                part = load(split, [index], roles, trainer, until)
            image, target = part.of(roles.input), part.of(roles.target)
            if image is None or target is None or min(image.ndim, target.ndim) < 3:
                return None
            if image.shape[-2:] != target.shape[-2:]:
                return None
            draws.append((image[0].double(), target[0].double()))
        image, target = draws[0]
        for other_image, other_target in draws[1:]:
            turned = turn_between(image, other_image)
            if turned in (None, "left as it is"):
                continue
            follows = target.shape[-1] == target.shape[-2] or turned in [*TURNS][:4]
            wanted = TURNS[turned](target) if follows else target
            if torch.equal(wanted, target):  # a target that looks the same either way
                continue
            moved += 1
            like = correlation(wanted, other_target)
            if like is not None and like > (correlation(target, other_target) or 0.0):
                same += 1
            else:
                first = first or turned
        if time.monotonic() > until:
            break
    return Followed(moved, same, first, split.place_of("__getitem__"))


def turn_between(image: Tensor, other: Tensor) -> str | None:
    """Return what makes the second image of the first, None where nothing clearly does."""
    known = {}
    for name, turn in TURNS.items():
        turned = turn(image)
        if turned.shape == other.shape:
            known[name] = correlation(turned, other) or 0.0
    ranked = sorted(known, key=known.__getitem__, reverse=True)
    best, second = ranked[0], ranked[1]
    return best if known[best] > LIKE and known[best] - known[second] > UNLIKE else None


def correlation(one: Tensor, other: Tensor) -> float | None:
    if one.shape != other.shape:
        return None
    pair = torch.stack([one.flatten(), other.flatten()])
    return float(torch.corrcoef(pair)[0, 1]) if bool(pair.std(1).min() > 0) else None
