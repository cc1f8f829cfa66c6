"""Samples from all over a split, as the network gets them, and what they tell without labels or rules."""

import time
from typing import Any

import torch
from torch import Tensor

from training_checklist.engines.replay import seed_all
from training_checklist.evidence.labels import SameInputs
from training_checklist.evidence.values import NotFinite
from training_checklist.finding import Place
from training_checklist.lab.data import LEAST, Part, load
from training_checklist.lab.roles import Roles
from training_checklist.lab.stored import are_unlikely_to_repeat, digest_row
from training_checklist.lightning import Trainer, isolate_rng


def not_finite(leaf: Tensor, name: str, place: Place, indices: list[int] | None = None) -> NotFinite:
    """Count what is not finite in a tensor of a batch; `indices` into the dataset of its samples, where known."""
    total = len(leaf) if leaf.ndim else 1
    wrong = ~leaf.isfinite()
    if not wrong.any():
        return NotFinite(name, "", 0, 0, total, place)
    positions = wrong.nonzero()[:, 0].unique().tolist() if leaf.ndim else [0]
    kind = "NaN" if leaf.isnan().any() else "Inf"
    sample = positions[0] if indices is None else indices[positions[0]]
    return NotFinite(name, kind, int(wrong.sum()), len(positions), total, place.beside(sample=sample))


def same_inputs(part: Part, roles: Roles, trainer: Trainer, until: float) -> SameInputs | None:
    """Load training samples one by one, with the same random numbers each: equal inputs are one sample then."""
    first: dict[int, tuple[int, Any]] = {}
    rows, contradicting = [], []
    if roles.target is None or roles.input is None:
        return None
    with isolate_rng():
        for index in part.indices:
            if time.monotonic() > until:
                break
            seed_all()
            one = load(part.split, [index], roles, trainer, until)
            row, target = one.of(roles.input), one.of(roles.target)
            if row is None or target is None:
                return None
            rows.append(row[0])
            other, known = first.setdefault(digest_row(row[0]), (index, target))
            if not torch.equal(known, target):
                contradicting.append((index, other))
    if len(rows) < LEAST:
        return None
    repeatable = not are_unlikely_to_repeat(rows)
    pair = contradicting[0] if contradicting else (0, 0)
    return SameInputs(len(rows), len(contradicting), len(first), repeatable, pair, part.split.place)
