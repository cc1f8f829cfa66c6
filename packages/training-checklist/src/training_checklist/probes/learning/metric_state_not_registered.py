import ast
import inspect
from typing import Any

import torch
from torch import Tensor
from torchmetrics import Metric, SumMetric

from training_checklist.instruments import (
    MetricListener,
    TwoEpochs,
    Validated,
    digest,
    is_own_class,
    of_function,
    pass_on,
    tree_of,
)
from training_checklist.probe import CannotJudge, Fix, Hit, Hits, Limits, Probe

OF_EVERY_METRIC = {*vars(SumMetric()), "compute", "update"}


class PlainState(MetricListener):
    """Sees what both of the first two updates of each metric of the project change beside its registered states.

    What one update alone changes may be a property of the data, such as the number of classes, and adds nothing up.

    Attributes:
        changed: names of attributes, of each update, by the metric's path and class, which has no reset of its own.
    """

    def __init__(self, run: TwoEpochs) -> None:
        super().__init__(run)
        self.changed: dict[tuple[str, type[Metric]], list[list[str]]] = {}
        for path, metric in self.metrics():
            if is_own_class(type(metric)) and type(metric).reset is Metric.reset:
                self._watch(path, metric)

    def _watch(self, path: str, metric: Metric) -> None:
        inner = metric.update
        changed = self.changed.setdefault((path, type(metric)), [])

        def update(*arguments: Any, **options: Any) -> None:
            before = plain_values(metric) if len(changed) < 2 else {}
            pass_on(inner, *arguments, **options)
            if len(changed) < 2:
                after = plain_values(metric)
                changed.append([name for name, value in after.items() if value != before.get(name)])

        self.put(metric, "update", update)


def plain_values(metric: Metric) -> dict[str, Any]:
    """Return what tells the values apart that a metric keeps beside its states."""
    found: dict[str, Any] = {}
    for name, value in vars(metric).items():
        if name in OF_EVERY_METRIC or name in metric._defaults:
            continue
        if isinstance(value, (list, dict, set)):
            found[name] = len(value)
        elif isinstance(value, Tensor):
            found[name] = digest(value)
        elif isinstance(value, (int, float)):
            found[name] = value
    return found


def words(kind: type[Metric]) -> set[str]:
    """Return the attributes that compute() reads, or a method that it calls: what else is kept is no part of it."""
    found: set[str] = set()
    for function in [kind.compute, *(getattr(kind, name, None) for name in attributes(kind.compute))]:
        found |= attributes(function) if inspect.isfunction(inspect.unwrap(function)) else set()
    return found


def attributes(function: Any) -> set[str]:
    return {node.attr for node in ast.walk(tree_of(inspect.unwrap(function))) if isinstance(node, ast.Attribute)}


def detect(run: TwoEpochs, limits: Limits) -> Hits:
    found = {of: updates for of, updates in run.heard().changed.items() if len(updates) == 2}
    if not found:
        raise CannotJudge("no metric of the project's own that keeps Metric.reset was updated twice")
    for (path, kind), (first, second) in found.items():
        changed = [name for name in first if name in second and name in words(kind)]
        if changed:
            names = ", ".join(changed[:3])
            yield Hit(
                f"update() of {path} changes {names}, which add_state has not made: reset() leaves it as it is",
                of_function(kind.update).beside(module=f"{path} ({kind.__name__})", note=names),
            )


class Counted(Metric):
    def __init__(self) -> None:
        super().__init__()
        self.seen = torch.tensor(0)

    def update(self, number: Tensor) -> None:
        self.seen = self.seen + number

    def compute(self) -> Tensor:
        return self.seen.float()


class Registered(Counted):
    def __init__(self) -> None:
        Metric.__init__(self)
        self.add_state("seen", torch.tensor(0), dist_reduce_fx="sum")


class Remembering(Registered):
    def update(self, number: Tensor) -> None:
        super().update(number)
        self.kind_of_number = number.ndim + 1  # known from the first update on


class Counting(Validated):
    kind = Counted

    def __init__(self) -> None:
        super().__init__()
        self.number = self.kind()

    def validation_step(self, batch: list, batch_idx: int) -> None:
        self.number.update(torch.tensor(len(batch[1])))
        self.log("val/number", self.number)


PROBE = Probe(
    question="Does each metric keep what it accumulates in states made by add_state?",
    why="its value mixes all epochs, and the sanity check; several processes do not add it up",
    listener=PlainState,
    detect=detect,
    fix=Fix('self.add_state("features", default=[], dist_reduce_fx="cat") in the metric\'s __init__'),
    faulty=Counting,
    healthy=type("WithState", (Counting,), {"kind": Registered}),
    also_healthy=(type("WithKind", (Counting,), {"kind": Remembering}),),
)
