"""What a probe is: a question with the detector that answers it, in a file of its own. Nothing here imports torch."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial, wraps
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from training_checklist.finding import FAILED, NOWHERE, REMARK, WARNING, Finding, Fix, Place

ID = re.compile(r"[a-z0-9-]+/[a-z0-9-]+")
PACKAGE = f"{__package__}.probes."
ITEMS = {"data": "limit_batches", "network": "trace", "run": "fast_dev_run", "schedule": "learning"}

# All that a probe's file needs to say what it asks and what it has found; what it looks at comes from `lab`.
__all__ = ["FAILED", "REMARK", "WARNING", "CannotJudge", "Fix", "Hit", "Hits", "Limits", "Place", "Probe", "Threshold"]
__all__ += ["each_held_out"]

Limits = SimpleNamespace  # thresholds, by their names


class CannotJudge(Exception):
    """There is nothing to judge by; the message says why."""


class JudgedInPart(CannotJudge):
    """Some of what was to be looked at could be judged; the message says why the rest could not."""


@dataclass(frozen=True)
class Threshold:
    """A number that decides.

    Args:
        value: the default.
        reason: why this number: a theorem, a source, or a measurement over several healthy tasks; with its unit.
        factor: by which it is made larger and smaller in the test that asks whether it decides: then the faulty example
            is missed, and the healthy one is found.
        faulty: an example that this number decides about, where the probe's own is decided by another one.
        healthy: likewise.
    """

    value: Any
    reason: str
    factor: float = 3.0
    faulty: Any = None
    healthy: Any = None


@dataclass(frozen=True)
class Hit:
    """What a rule has seen once. What is left out here is what the rule says of all its hits.

    Args:
        what: what was seen, with its numbers.
        place: where.
        severity: REMARK, too, for what matters in a way of running alone that this project does not ask for.
    """

    what: str
    place: Place = NOWHERE
    why: str | None = None
    fix: Fix | None = None
    severity: str | None = None


Hits = Iterator[Hit]


def kept(lab: Any, limits: Limits) -> Hits:
    """Yield the hits that the probe's own listener has kept."""
    yield from lab.heard().found.values()


def each_held_out(look: Callable[[Any, Any, Limits], Hits]) -> Callable[[Any, Limits], Hits]:
    """Make a detector that looks at each split of the data that is held out.

    It cannot judge where it cannot judge any of them.
    """

    @wraps(look)
    def detect(data: Any, limits: Limits) -> Hits:
        yield from each_judged([partial(look, data, split, limits) for split in data.held_out], "nothing is held out")

    detect.of_each = True
    return detect


def is_of_each(detect: Callable[..., Hits]) -> bool:
    """Whether a detector looks at each split of the data that is held out."""
    return hasattr(detect, "of_each")


def each_judged(looks: Sequence[Callable[[], Hits]], none: str) -> Hits:
    """Yield what several looks find.

    Raises:
        CannotJudge: none of them can judge, or there is none, which is said as `none`.
        JudgedInPart: one of them cannot.
    """
    reasons = []
    for look in looks:
        try:
            yield from look()
        except CannotJudge as reason:
            reasons.append(reason)
    if sum(not isinstance(reason, JudgedInPart) for reason in reasons) == len(looks):
        raise reasons[-1] if reasons else CannotJudge(none)
    if reasons:
        raise JudgedInPart(str(reasons[-1]))


@dataclass(frozen=True, kw_only=True)
class Probe:
    """A question, its answer, and two small projects on which that can be tried.

    Args:
        id: topic/name, which never changes, for projects silence by it. Its file, probes/topic/name.py, says it; a
            project's own probe names it.
        item: that asks it. A topic of this package is asked by the item of its name, but for those of ITEMS.
        question: what is asked, so that "yes" is good.
        why: why a hit matters.
        severity: FAILED for what is surely wrong, WARNING for what may be meant.
        fix: what to do next.
        may_be_wrong: a healthy training that looks alike, where there is one.
        thresholds: by the name under which a project sets one: checks.<item>.<name>.
        symptom: whether a hit may only follow from another fault, which other probes may name.
        predicts_crash: whether a hit says that the program will end with an exception. In the checklist it is a remark
            where the program has come to its end all the same.
        aliases: ids of probes that were merged into this one: projects that silence by them go on to do so.
        detect: yields a hit for each thing that is wrong. It is given what the item examines, and the thresholds. It
            raises CannotJudge, with the reason, where there is nothing to judge by.
        listener: a class of Listener that is told of every operation while a step runs; `lab.heard()` is the one of
            this step, and `kept`, the default detector, yields what it has kept.
        steps: of the LightningModule, of which the question is asked.
        faulty: an example in which something is found: see training_checklist.lab.examples. None for a probe of a
            project's own item.
        healthy: one that is near to it, in which nothing is.
        also_faulty: further ones, of what the first does not reach.
        also_healthy: likewise.
    """

    id: str = ""
    item: str = ""
    question: str
    why: str
    severity: str = FAILED
    fix: Fix
    may_be_wrong: str = ""
    thresholds: Mapping[str, Threshold] = field(default_factory=dict)
    symptom: bool = False
    predicts_crash: bool = False
    aliases: tuple[str, ...] = ()
    detect: Callable[[Any, Limits], Hits] = kept
    listener: type | None = None
    steps: tuple[str, ...] = ("training_step",)
    faulty: Any = None
    healthy: Any = None
    also_faulty: tuple[Any, ...] = ()
    also_healthy: tuple[Any, ...] = ()

    def __post_init__(self) -> None:
        if self.detect is kept and self.listener is None:
            raise ValueError(
                f"rule {self.id or self.question!r}: give it detect= or listener=, which look for something"
            )
        module = (self.listener if self.detect is kept else self.detect).__module__
        if module.startswith(PACKAGE):
            topic, name = module.removeprefix(PACKAGE).split(".")
            object.__setattr__(self, "id", self.id or f"{topic}/{name.replace('_', '-')}")
            object.__setattr__(self, "item", self.item or ITEMS.get(topic, topic))
        if not ID.fullmatch(self.id):
            raise ValueError(f"rule id {self.id!r}: expected topic/name of lower-case letters, digits and -")
        if not self.item:
            raise ValueError(f"rule {self.id}: item is missing: the debug item that asks it")
        if not self.question.endswith("?"):
            raise ValueError(f"rule {self.id}: question is {self.question!r}; expected one that ends with ?")
        if self.severity not in (FAILED, WARNING, REMARK):
            known = f"{FAILED!r}, {WARNING!r} or {REMARK!r}"
            raise ValueError(f"rule {self.id}: severity is {self.severity!r}; expected {known}")

    def limits(self, chosen: Mapping[str, Any]) -> SimpleNamespace:
        """Return the thresholds as attributes: the project's own choice, else the default."""
        return SimpleNamespace(**{name: chosen.get(name, each.value) for name, each in self.thresholds.items()})

    def finding(self, hit: Hit) -> Finding:
        """Return what a hit comes to: what it leaves out is what is said of all."""
        return Finding(
            self.id,
            self.severity if hit.severity is None else hit.severity,
            hit.what,
            hit.place,
            self.why if hit.why is None else hit.why,
            self.fix if hit.fix is None else hit.fix,
            self.symptom,
        )

    def findings(self, lab: Any, chosen: Mapping[str, Any]) -> list[Finding]:
        """Return what the probe finds.

        Raises:
            CannotJudge: there is nothing to judge by.
        """
        return self.look(lab, chosen)[0]

    def look(self, lab: Any, chosen: Mapping[str, Any]) -> tuple[list[Finding], str]:
        """Return what the probe finds, and why some of what it was to look at could not be judged, "" where all was.

        Raises:
            CannotJudge: there is nothing to judge by.
        """
        found: list[Finding] = []
        try:
            for hit in self.detect(lab.asked_by(self), self.limits(chosen)):
                found.append(self.finding(hit))
        except CannotJudge as reason:
            if not found and not isinstance(reason, JudgedInPart):  # what is known counts, where the rest is not
                raise
            return found, str(reason)
        return found, ""

    def example(self) -> Finding:
        from training_checklist.lab.examples import findings  # imports Lightning

        found = findings(self, self.faulty)[0]
        path, name = found.place.file, Path(found.place.file).name
        return replace(found, what=found.what.replace(path, name), place=found.place.beside(file=name))
