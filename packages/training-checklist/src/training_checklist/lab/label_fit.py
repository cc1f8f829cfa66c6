"""Whether labels belong to inputs, told by a nearest-centroid classifier: no training, and hard to fool."""

import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from training_checklist.engines.chance import CHANCE, at_least, at_most
from training_checklist.engines.places import is_in_loop
from training_checklist.engines.splits import Split
from training_checklist.lab.data import LEAST, Data, part
from training_checklist.lab.labels import classes
from training_checklist.lab.loading import is_plain
from training_checklist.lab.shared import once
from training_checklist.lab.stored import stored_inputs
from training_checklist.lab.tokens import bags, confusion_of_tokens, halves, pairs
from training_checklist.probe import CannotJudge

FEATURES = 1024  # at most; larger inputs are averaged


@dataclass
class Sample:
    """Some inputs (N, F), standardised over all of them, with their labels (N,), in the order of the dataset."""

    inputs: Tensor
    labels: Tensor

    def halves(self) -> tuple["Sample", "Sample"]:
        """Return the first half of each class and the second: neighbours in a dataset are often of one recording."""
        first = torch.zeros(len(self.labels), dtype=torch.bool)
        for label in self.labels.unique():
            positions = (self.labels == label).nonzero().flatten()
            first[positions[: (len(positions) + 1) // 2]] = True
        return Sample(self.inputs[first], self.labels[first]), Sample(self.inputs[~first], self.labels[~first])


def sample_of(inputs: Tensor | None, labels: Tensor | None, classes: int, ignored: int) -> Sample | None:
    """Make a sample of inputs (N, ...), however scaled and shifted; None where labels can't be judged by them."""
    if labels is not None and labels.ndim == 2 and labels.shape[1] == 1:  # (N, 1), as tables have them
        labels = labels.squeeze(1)
    if inputs is None or labels is None or not inputs.is_floating_point() or inputs.ndim < 2 or labels.ndim != 1:
        return None
    known = (labels >= 0) & (labels < classes) & (labels != ignored) & inputs.flatten(1).isfinite().all(1)
    if known.sum() < LEAST:
        return None
    flat, labels = inputs[known].float(), labels[known]
    if flat[0].numel() > FEATURES and flat.ndim == 4:
        flat = F.adaptive_avg_pool2d(flat, 16)
    flat = flat.flatten(1)
    if flat.shape[1] > FEATURES:
        flat = F.adaptive_avg_pool1d(flat[:, None], FEATURES)[:, 0]
    return Sample((flat - flat.mean()) / flat.std().clamp_min(1e-12), labels.long())


def of_known_classes(held: Sample, train: Sample) -> Sample | None:
    """Return the samples whose classes the training set has too, None where those are too few to judge by."""
    known = torch.isin(held.labels, train.labels)
    return Sample(held.inputs[known], held.labels[known]) if known.sum() >= LEAST else None


def confusion(known: Sample, new: Sample, classes: int) -> Tensor:
    """Return (C, C) counts: rows are labels of `new`, columns the nearest class centre of `known`."""
    present = torch.unique(known.labels)
    centres = torch.stack([known.inputs[known.labels == label].mean(0) for label in present])
    nearest = present[torch.cdist(new.inputs, centres).argmin(1)]
    return torch.bincount(new.labels * classes + nearest, minlength=classes * classes).view(classes, classes)


@dataclass
class LabelFit:
    """Labels against the nearest class centre; (C, C) counts: rows are labels, columns the class of the centre.

    Args:
        labels: of the rows.
        within: half of the training set by the centres of the other half.
        across: the held-out split by the centres of the training set.
        held: half of the held-out split by the centres of its other half.
    """

    labels: list[int]
    within: Tensor
    across: Tensor
    held: Tensor

    def moved(self) -> dict[int, int]:
        """Return the classes that are another class in the held-out split, {label there: label here}, where they swap.

        A class has moved where more than half of its training samples lie nearest to its own centre, and more than
        half of its held-out samples to the centre of one and the same other class. Chance moves no set of classes onto
        itself; a class that is merely hard moves onto one that stays.
        """
        moved = {}
        for row in range(len(self.labels)):
            here, there = self.within[row], self.across[row]
            seen = int(there.argmax())
            if seen != row and 2 * here[row] > here.sum() and 2 * there[seen] > there.sum():
                moved[row] = seen
        stays = {row for row, there in enumerate(self.across) if 2 * there[row] > there.sum()}
        whole = set(moved) == set(moved.values())
        # A class whose samples are told from no other is missing in the ring.
        most = 2 * len(moved) > len(self.labels) and not stays & set(moved.values())
        if not (whole or most) or sum(self.lost(row) for row in moved) > math.log(CHANCE):
            return {}
        return {self.labels[row]: self.labels[seen] for row, seen in moved.items()}

    def lost(self, row: int) -> float:
        """Return the logarithm of the chance that a class is found so rarely in the held-out split."""
        here, there = self.within[row], self.across[row]
        found = at_most(int(there[row]), int(there.sum()), float(here[row] / here.sum()))
        return math.log(max(found, 1e-300))


def agreement(table: Tensor) -> float:
    """Return the share of samples that lie nearest to the centre of their class."""
    return float(table.diagonal().sum() / table.sum())


def fits(table: Tensor) -> bool:
    """Whether labels and nearest centres agree more often than if they had nothing to do with one another."""
    total = int(table.sum())
    unrelated = float((table.sum(0) / total) @ (table.sum(1) / total))
    return at_least(int(table.diagonal().sum()), total, unrelated) < CHANCE


def is_less(table: Tensor, rate: float) -> bool:
    """Whether samples agree more rarely than at `rate`, and chance does not explain it."""
    return at_most(int(table.diagonal().sum()), int(table.sum()), rate) < CHANCE


@once
def label_fits(data: Data, split: Split) -> list[LabelFit]:
    """Hold labels of samples, and of tokens, against inputs as the network gets them.

    Raises:
        CannotJudge: there are too few labels, or inputs of other kinds.
    """
    if split.of_several and is_in_loop():
        raise CannotJudge("the script trains in a loop: one of several loaders may be another task's")
    found = [*of_samples(data, inputs(data, data.train), split), *of_tokens(data, split)]
    if not found:
        raise CannotJudge(f"labels of {split.name} cannot be held against their inputs")
    return found


@once
def plain_fit(data: Data, split: Split) -> LabelFit:
    """Hold labels of samples against training inputs that no augmentation has changed."""
    own = part(data, data.train)
    plain = inputs(data, data.train) if is_plain(data) else None
    if plain is None and own.of(data.roles.target) is not None:
        kept = stored_inputs(data.train.dataset, own.indices)
        plain = sample_of(kept, own.of(data.roles.target), classes(data), data.roles.ignored)
    found = of_samples(data, plain, split)
    if not found:
        raise CannotJudge(f"labels of {split.name} cannot be held against plain inputs of training")
    return found[0]


@once
def inputs(data: Data, split: Split) -> Sample | None:
    """Return what labels are held against: numbers as they are, and texts by the tokens that they have."""
    own, roles = part(data, split), data.roles
    values = bags(own, roles) if roles.input is None else own.of(roles.input)
    return sample_of(values, own.of(roles.target), classes(data), roles.ignored)


def of_samples(data: Data, train: Sample | None, split: Split) -> list[LabelFit]:
    held = inputs(data, split)
    if train is None or held is None or train.inputs.shape[1] != held.inputs.shape[1]:
        return []
    held = of_known_classes(held, train)
    if held is None:
        return []
    known = torch.cat([train.labels, held.labels]).unique()
    train, held = (Sample(each.inputs, torch.searchsorted(known, each.labels)) for each in (train, held))
    within, beyond = (confusion(*each.halves(), len(known)) for each in (train, held))
    return [LabelFit(known.tolist(), within, confusion(train, held, len(known)), beyond)]


def of_tokens(data: Data, split: Split) -> list[LabelFit]:
    """Hold the labels of tokens in a split against those that the tokens have in training."""
    own, other = (pairs(part(data, each), data.roles) for each in (data.train, split))
    if min(sum(len(labels) for labels, _ in each) for each in (own, other)) < LEAST:
        return []
    present, counts = torch.cat([labels.long() for labels, _ in (*own, *other)]).unique(return_counts=True)
    inside = (present >= 0) & (present < classes(data))
    present, counts = present[inside], counts[inside]
    if not len(present):
        return []
    # Of a language's words, a table of each with each takes gigabytes.
    present = present[counts.topk(min(len(counts), FEATURES)).indices].sort().values
    own, other = ([(positions(labels, present), tokens) for labels, tokens in each] for each in (own, other))
    compared = (halves(own), (own, other), halves(other))
    return [LabelFit(present.tolist(), *(confusion_of_tokens(*each, len(present)) for each in compared))]


def positions(labels: Tensor, present: Tensor) -> Tensor:
    """Return where each label stands among those that are present, sorted, and -1 where it does not."""
    found = torch.searchsorted(present, labels.long()).clamp_max(len(present) - 1)
    return torch.where(present[found] == labels, found, -1)
