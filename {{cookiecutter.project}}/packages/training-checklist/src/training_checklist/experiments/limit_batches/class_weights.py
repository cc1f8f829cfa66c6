"""The weights that criteria give to classes, beside the labels that they are given."""

from collections.abc import Iterable

from torch import Tensor

from training_checklist.engines.criteria import CriterionCall
from training_checklist.evidence.labels import ClassWeights


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

    @property
    def evidence(self) -> list[ClassWeights]:
        return [weights for line, weights in self.found.items() if line not in self.changing]
