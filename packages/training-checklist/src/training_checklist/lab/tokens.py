"""Tokens of texts and their labels, told by the tokens alone: the label that each token has most often."""

import torch
import torch.nn.functional as F
from torch import Tensor

from training_checklist.lab.data import LEAST, Part
from training_checklist.lab.roles import Roles

FEATURES = 1024  # at most: of larger vocabularies several tokens are counted together
MARKS = 2 / 3  # of the texts begin with a mark, or with padding on their left


def words(roles: Roles) -> str | None:
    """Return the place of the tokens of the largest vocabulary: letters and cases may stand beside them."""
    return max(roles.tables, key=roles.tables.__getitem__, default=None)


def bags(part: Part, roles: Roles) -> Tensor | None:
    """Return for each text how often it has which token, (N, F); None where no tokens enter."""
    place = words(roles)
    if place is None:
        return None
    size, rows = roles.tables[place], part.rows.get(place, [])
    width = min(size, FEATURES)
    if not rows or any(row.ndim != 1 or bool((row < 0).any()) for row in rows):
        return None
    counts = torch.stack([torch.bincount(row.long() % width, minlength=width) for row in rows]).float()
    return F.normalize(counts.log1p())


def pairs(part: Part, roles: Roles, shift: int = 0) -> list[tuple[Tensor, Tensor]]:
    """Return for each text the labels that count, and the tokens that stand so many places after them."""
    texts, targets = part.rows.get(words(roles) or "", []), part.rows.get(roles.target or "", [])
    found = []
    for text, labels in zip(texts, targets, strict=False):
        if text.ndim != 1 or text.shape != labels.shape or labels.is_floating_point():
            return []
        start, end = max(-shift, 0), len(text) - max(shift, 0)
        # What a text is filled up with, and an end mark with it, has one label, at any distance.
        filled = (text == text[-1]).long().flip(0).cumprod(0).flip(0).bool()
        counts = ((labels != roles.ignored) & ~filled)[start:end]
        found.append((labels[start:end][counts], text[start + shift : end + shift][counts]))
    return found


def halves(known: list[tuple[Tensor, Tensor]]) -> tuple[list[tuple[Tensor, Tensor]], list[tuple[Tensor, Tensor]]]:
    """Return every other text, and those between them."""
    return known[::2], known[1::2]


def confusion_of_tokens(known: list[tuple[Tensor, Tensor]], new: list[tuple[Tensor, Tensor]], classes: int) -> Tensor:
    """Return (C, C) counts: rows are labels of `new`, columns the label that `known` has most often for the token."""
    labels, tokens = (torch.cat([each[part] for each in known]).long() for part in (0, 1))
    asked, given = (torch.cat([each[part] for each in new]).long() for part in (0, 1))
    inside = (labels >= 0) & (labels < classes)
    labels, tokens = labels[inside], tokens[inside]
    kinds, index = tokens.unique(return_inverse=True)
    table = torch.bincount(index * classes + labels, minlength=len(kinds) * classes).view(len(kinds), classes)
    seen = torch.isin(given, kinds) & (asked >= 0) & (asked < classes)
    told = table.argmax(1)[torch.searchsorted(kinds, given[seen])]
    return torch.bincount(asked[seen] * classes + told, minlength=classes * classes).view(classes, classes)


def tokens_of(*parts: Part, place: str) -> list[Tensor]:
    """Return the tokens of each part's texts, but for what marks or fills their ends; none of too few texts."""
    chunks = [part.chunks.get(place, []) for part in parts]
    texts = [[each for each in own if each.ndim == 2 and each.shape[1] > 2 and not is_mask(each)] for own in chunks]
    if any(sum(map(len, own)) < LEAST for own in texts):
        return [torch.tensor([]) for _ in parts]
    # Left out everywhere: kinds of things have no padding, and the most frequent one may be another in each split.
    left_out = torch.cat([at_ends(own) for own in texts])
    tokens = [torch.cat([text.flatten() for text in own]) for own in texts]
    return [own[~torch.isin(own, left_out)] for own in tokens]


def is_mask(tensor: Tensor) -> bool:
    return tensor.dtype == torch.bool


def at_ends(texts: list[Tensor]) -> Tensor:
    firsts, lasts = (torch.cat([text[:, end] for text in texts]) for end in (0, -1))
    begin, padding = firsts.mode().values, lasts.mode().values
    return torch.stack([begin, padding] if float((firsts == begin).float().mean()) > MARKS else [padding])
