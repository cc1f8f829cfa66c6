"""What a probe is: a question with the detector that answers it, in a file of its own. Nothing here imports torch."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import wraps
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from training_checklist.finding import FAILED, REMARK, WARNING, Finding, Fix, Place
from training_checklist.rule import CannotJudge, Hit, Question, Threshold

PACKAGE = f"{__package__}.probes."
ITEMS = {"data": "limit_batches", "network": "trace", "run": "fast_dev_run", "schedule": "learning"}

# All that a probe's file needs to say what it asks and what it has found; what it looks at comes from `lab`.
__all__ = ["FAILED", "REMARK", "WARNING", "CannotJudge", "Fix", "Hit", "Hits", "Limits", "Place", "Probe", "Threshold"]
__all__ += ["each_held_out"]

Hits = Iterator[Hit]
Limits = SimpleNamespace  # thresholds, by their names


def kept(lab: Any, limits: Limits) -> Hits:
    """Yield the hits that the probe's own listener has kept."""
    yield from lab.heard().found.values()


def each_held_out(look: Callable[[Any, Any, Limits], Hits]) -> Callable[[Any, Limits], Hits]:
    """Make a detector that looks at each split of the data that is held out.

    It cannot judge where it cannot judge any of them.
    """

    @wraps(look)
    def detect(data: Any, limits: Limits) -> Hits:
        reasons = []
        for split in data.held_out:
            try:
                yield from look(data, split, limits)
            except CannotJudge as reason:
                reasons.append(reason)
        if len(reasons) == len(data.held_out):
            raise CannotJudge(next(map(str, reasons), "nothing is held out"))

    return detect


@dataclass(frozen=True, kw_only=True)
class Probe(Question):
    """A question, its answer, and two small projects on which that can be tried.

    Args:
        id: topic/name, and its file is probes/topic/name.py, which says it; a project's own probe names it.
        item: that asks it. A topic of this package is asked by the item of its name, but for those of ITEMS.
        detect: yields a hit for each thing that is wrong. It is given what the item examines, and the thresholds. It
            raises CannotJudge, with the reason, where there is nothing to judge by.
        listener: a class of Listener that is told of every operation while a step runs; `lab.heard()` is the one of
            this step, and `kept`, the default detector, yields what it has kept.
        steps: of the LightningModule, of which the question is asked.
        faulty: an example in which something is found: see training_checklist.lab.examples.
        healthy: one that is near to it, in which nothing is.
    """

    id: str = ""
    item: str = ""
    severity: str = FAILED
    detect: Callable[[Any, Limits], Hits] = kept
    listener: type | None = None
    steps: tuple[str, ...] = ("training_step",)
    faulty: Any
    healthy: Any

    def __post_init__(self) -> None:
        module = (self.listener if self.detect is kept else self.detect).__module__
        if module.startswith(PACKAGE):
            topic, name = module.removeprefix(PACKAGE).split(".")
            object.__setattr__(self, "id", self.id or f"{topic}/{name.replace('_', '-')}")
            object.__setattr__(self, "item", self.item or ITEMS.get(topic, topic))
        super().__post_init__()
        if not self.item:
            raise ValueError(f"rule {self.id}: item is missing: the debug item that asks it")

    def findings(self, lab: Any, chosen: Mapping[str, Any]) -> list[Finding]:
        """Return what the probe finds.

        Raises:
            CannotJudge: there is nothing to judge by.
        """
        found: list[Finding] = []
        try:
            for hit in self.detect(lab.asked_by(self), self.limits(chosen)):
                found.append(self.finding(hit))
        except CannotJudge:
            if not found:  # what is known counts, where the rest is not
                raise
        return found

    def example(self) -> Finding:
        from training_checklist.lab.examples import findings  # imports Lightning

        found = findings(self, self.faulty)[0]
        path, name = found.place.file, Path(found.place.file).name
        return replace(found, what=found.what.replace(path, name), place=found.place.beside(file=name))
