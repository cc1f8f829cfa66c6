"""Windows of sequences, beside the targets that follow them."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from torch import Tensor

from training_checklist.engines.batches import leaves
from training_checklist.evidence.values import TargetParts
from training_checklist.finding import Place
from training_checklist.lab.data import LEAST, Part
from training_checklist.lab.roles import Roles

MOST_NUMBERS = 256  # of a target, which are held against each number of a window
LONGEST = 20_000  # numbers of a window
KINDS = 20  # of a number that stands for a thing: of fewer, it may well be a class that is told beside a sequence
ROUNDING = 1e-6  # of a correlation: float32 keeps 7 digits, and a sum of squares loses one


def target_parts(part: Part, roles: Roles) -> list[TargetParts]:
    """Hold each number that the loss compares with against each of the inputs, where these are windows."""
    inputs = [(place, part.of(place)) for place in sorted(roles.inputs - {roles.target} - roles.compared)]
    known = [(place, values) for place, values in inputs if values is not None and values.is_floating_point()]
    windows = [(place, values) for place, values in known if values.ndim > 2 and values[0].numel() <= LONGEST]
    parts: list[TargetParts] = []
    for name in sorted(roles.compared | {roles.target} - {None}) if windows else ():
        target = part.of(name)
        if target is None or not target.is_floating_point() or len(target) < LEAST:
            continue
        if target[0].numel() > MOST_NUMBERS or (target[0].numel() == 1 and name != roles.target):
            continue
        answers, varies = standardised(target)
        found = []
        for place, values in windows:
            rows, _ = standardised(values)
            alike = (answers.T @ rows / len(rows)).abs() > 1 - ROUNDING
            for number in alike.any(1).nonzero().flatten().tolist():
                found.append((at(name, number, target), at(place, int(alike[number].nonzero()[0]), values)))
        parts.append(TargetParts(name, int(varies.sum()), found, len(target), part.split.place))
    return parts


class ThingsInSequences:
    """Holds each number that stands for a thing, such as an item, against sequences of such numbers in its batch."""

    def __init__(self) -> None:
        self.kinds: dict[str, set[int]] = {}
        self.samples: dict[str, int] = {}
        self.columns: dict[tuple[str, str], set[int]] = {}  # counted from the end: lengths may vary

    def see(self, batch: Any) -> None:
        whole = {place: each for place, each in leaves(batch).items() if each.ndim and not each.is_floating_point()}
        for place, single in whole.items():
            if single.ndim != 1:
                continue
            self.kinds.setdefault(place, set()).update(single.tolist())
            self.samples[place] = self.samples.get(place, 0) + len(single)
            for name, sequences in whole.items():
                if sequences.ndim == 2 and sequences.shape[1] > 1 and len(sequences) == len(single):
                    alike = (sequences == single[:, None]).all(0).nonzero().flatten() - sequences.shape[1]
                    known = self.columns.setdefault((place, name), set(alike.tolist()))
                    known &= set(alike.tolist())

    def evidence(self, place: Place) -> Iterator[TargetParts]:
        for (single, sequences), columns in self.columns.items():
            kinds = len(self.kinds[single])
            if self.samples[single] >= LEAST and kinds >= KINDS:
                found = [(single, f"{sequences}[:, {column}]") for column in sorted(columns)]
                yield TargetParts(single, 1, found, self.samples[single], place, kinds)


def standardised(values: Tensor) -> tuple[Tensor, Tensor]:
    """Return (N, numbers) with mean 0 and deviation 1, or 0 where they don't vary, and which of them do."""
    rows = values.reshape(len(values), -1).double()
    rows = rows - rows.mean(0)
    deviations = rows.std(0, correction=0)
    varies = deviations > ROUNDING * rows.abs().amax(0).clamp_min(1e-30)
    return torch.where(varies, rows / deviations.clamp_min(1e-300), 0.0), varies


def at(place: str, number: int, values: Tensor) -> str:
    """Return the place in a batch of a number of each sample: "batch[0][:, 23, 0]"."""
    if values.ndim < 2:
        return place
    return f"{place}[:, {', '.join(str(int(each)) for each in np.unravel_index(number, values.shape[1:]))}]"
