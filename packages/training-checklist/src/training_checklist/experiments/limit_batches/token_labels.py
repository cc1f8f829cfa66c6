"""Labels of texts and of their tokens, told by the tokens alone: the label that each token has most often."""

from dataclasses import replace

import torch
import torch.nn.functional as F
from torch import Tensor

from training_checklist.evidence.labels import IgnoredTokens, LabelFit, TokenLabels
from training_checklist.experiments.limit_batches.label_fit import FEATURES, LEAST
from training_checklist.lab.data import Part
from training_checklist.lab.roles import Roles

NO_LABEL = -(2**31)
SHIFTS = (-2, -1, 0, 1, 2)  # a mark in front or at the end, and both


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


def halves(part: Part, roles: Roles, shift: int = 0) -> tuple[list[tuple[Tensor, Tensor]], list[tuple[Tensor, Tensor]]]:
    known = pairs(part, roles, shift)
    return known[::2], known[1::2]


def token_labels(part: Part, roles: Roles) -> TokenLabels | None:
    """Return how well tokens at some distances tell labels; None where there are too few, or labels are tokens."""
    known = pairs(part, roles)
    if roles.target is None or roles.target in roles.tables or sum(len(labels) for labels, _ in known) < LEAST:
        return None
    labels = torch.cat([each for each, _ in known])
    most = labels.mode().values
    errors = {}
    for shift in SHIFTS:
        one, two = (
            [((labels == most).long(), tokens) for labels, tokens in half] for half in halves(part, roles, shift)
        )
        table = confusion(one, two, 2)
        errors[shift] = 1 - float(table.diagonal().sum() / table.sum().clamp_min(1))
    return TokenLabels(roles.target, words(roles) or "", len(labels), errors, part.split.place_of("__getitem__"))


def ignored_tokens(part: Part, roles: Roles) -> IgnoredTokens | None:
    """Return which tokens have the label that the criterion ignores; None where their labels are not one each."""
    known = pairs(part, replace(roles, ignored=NO_LABEL))
    if not known or roles.classes is None:
        return None
    labels, tokens = (torch.cat([each[part] for each in known]) for part in (0, 1))
    left_out = labels == roles.ignored
    kinds, share = len(tokens[left_out].unique()), float(left_out.float().mean()) if len(labels) else 0.0
    has_output = 0 <= roles.ignored < roles.classes
    return IgnoredTokens(roles.ignored, has_output, share, kinds, part.split.place.beside(note=roles.target))


def token_fit(own: Part, other: Part, roles: Roles) -> LabelFit | None:
    """Hold the labels of tokens in one split against those that the tokens have in the other one."""
    known = pairs(own, roles), pairs(other, roles)
    if roles.classes is None or min(sum(len(labels) for labels, _ in each) for each in known) < LEAST:
        return None
    tables = [
        confusion(*halves(own, roles), roles.classes),
        confusion(*known, roles.classes),
        confusion(*halves(other, roles), roles.classes),
    ]
    present = sum(table.sum(0) + table.sum(1) for table in tables).nonzero().flatten()
    within, across, held = (table[present][:, present] for table in tables)
    return LabelFit(other.split.name, present.tolist(), within, across, held, other.split.place)


def confusion(known: list[tuple[Tensor, Tensor]], new: list[tuple[Tensor, Tensor]], classes: int) -> Tensor:
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
