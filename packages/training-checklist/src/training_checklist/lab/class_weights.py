"""The weights that criteria give to classes, beside the labels that they are given."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from torch import Tensor

from training_checklist.engines.criteria import CriterionCall
from training_checklist.finding import NOWHERE, Place


@dataclass
class ClassWeights:
    """The weights that a criterion gives to classes, and how often each class was among the labels that it was given.

    Args:
        criterion: its name.
        weights: by class.
        counts: by class, of the training batches that were seen.
        whole: by class, of the whole training set; none where too few of its labels are known.
        sampled: whether these are of samples drawn from it.
    """

    criterion: str
    weights: list[float]
    counts: list[int]
    place: Place = NOWHERE
    whole: list[int] = field(default_factory=list)
    sampled: bool = False


@dataclass
class PositiveWeights:
    """The weights that binary cross-entropy gives to positives, and how often each output's target was one.

    Args:
        weights: by output.
        positives: likewise.
        labels: of each output, that were seen.
    """

    weights: list[float]
    positives: list[int]
    labels: int
    place: Place


class WeightedClasses:
    """Adds up labels by class, for each line that calls a criterion with weights of classes."""

    def __init__(self) -> None:
        self.found: dict[tuple[str, int], ClassWeights] = {}
        self.changing: set[tuple[str, int]] = set()  # lines that give other weights in another batch

    def add(self, calls: Iterable[CriterionCall]) -> None:
        for call in calls:
            weights, classes = call.options.get("weight"), call.num_classes
            if classes is None or not isinstance(weights, Tensor) or weights.numel() != classes:
                continue
            labels = call.target.detach().cpu().flatten()
            labels = labels[(labels != call.ignored) & (labels >= 0) & (labels < classes)]
            line, given = (call.place.file, call.place.line), weights.detach().flatten().tolist()
            known = self.found.setdefault(line, ClassWeights(call.name, given, [0] * classes, call.place))
            if known.weights != given:
                self.changing.add(line)
                continue
            new = labels.bincount(minlength=classes).tolist()
            known.counts = [count + further for count, further in zip(known.counts, new, strict=True)]


class WeightedPositives:
    """Adds up positives by output, for each line that calls a criterion with weights of positives."""

    def __init__(self) -> None:
        self.found: dict[tuple[str, int], PositiveWeights] = {}

    def add(self, calls: Iterable[CriterionCall]) -> None:
        for call in calls:
            weights, target = call.options.get("pos_weight"), call.target.detach()
            if not isinstance(weights, Tensor) or weights.ndim > target.ndim or weights.requires_grad:
                continue
            shape = (1,) * (target.ndim - weights.ndim) + tuple(weights.shape)
            shared = [dimension for dimension, size in enumerate(shape) if size == 1]
            positive = (target > 0.5).sum(shared).flatten().tolist() if shared else target.gt(0.5).flatten().tolist()
            given = weights.detach().flatten().tolist()
            known = self.found.setdefault(
                (call.place.file, call.place.line), PositiveWeights(given, [0] * len(given), 0, call.place)
            )
            if known.weights == given and len(positive) == len(given):
                known.positives = [one + other for one, other in zip(known.positives, positive, strict=True)]
                known.labels += target.numel() // len(given)
