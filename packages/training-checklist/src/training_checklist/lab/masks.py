"""The masks of a batch, which say of parts of its samples whether they count."""

import re

from torch import Tensor

# What a mask, or a tensor of lengths, is called where it has a name; others of 0 and 1 may be labels of several kinds.
NAMES = re.compile(
    "mask|pad|valid|miss|observ|known|present|keep|ignore|attention|weight|len|size|num|count|dur|frame|step"
)
NAMED = re.compile(r"(?:\['|\.)(\w+)(?:'\])?$")


def may_be_called(place: str) -> bool:
    """Whether what has this place in a batch may be a mask or lengths, as far as it has a name."""
    name = NAMED.search(place)
    return name is None or bool(NAMES.search(name[1].lower()))


def is_mask(leaf: Tensor) -> bool:
    """Whether a tensor holds 0 and 1 alone, both of them, for several parts of each sample.

    One 1 in a sample, or none, is the code of a class.
    """
    if leaf.ndim < 2 or leaf[0].numel() < 2 or leaf.is_complex():
        return False
    zeros = leaf == 0
    counted = (~zeros).flatten(1).sum(1)
    return bool((zeros | (leaf == 1)).all()) and bool(zeros.any()) and int(counted.max()) > 1


def covers(mask: Tensor, leaf: Tensor) -> bool:
    """Whether a mask has an entry for each number of a tensor, or each row: (N, T) for (N, T, features)."""
    return mask.ndim <= leaf.ndim <= mask.ndim + 1 and leaf.shape[: mask.ndim] == mask.shape
