"""What a rule is: a question that is answered from evidence, in a file of its own. Nothing here imports torch."""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

from training_checklist.finding import FAILED, NOWHERE, REMARK, WARNING, Finding, Fix, Place

ID = re.compile(r"[a-z0-9-]+/[a-z0-9-]+")


class CannotJudge(Exception):
    """The evidence does not tell what a rule asks; the message says why."""


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


@dataclass(frozen=True, kw_only=True)
class Question:
    """What a rule asks in one debug item, and what it says where the answer is no.

    Args:
        id: topic/name; it never changes, for projects silence by it.
        item: the debug item that asks it; it has no second owner.
        question: what is asked, so that "yes" is good.
        why: why a hit matters.
        severity: FAILED for what is surely wrong, WARNING for what may be meant.
        fix: what to do next.
        thresholds: by the name under which a project sets one: checks.<item>.<name>.
        symptom: whether a hit may only follow from another fault, which other rules may name.
        aliases: ids of rules that were merged into this one: projects that silence by them go on to do so.
    """

    id: str
    item: str
    question: str
    why: str
    severity: str
    fix: Fix
    thresholds: Mapping[str, Threshold] = field(default_factory=dict)
    symptom: bool = False
    aliases: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not ID.fullmatch(self.id):
            raise ValueError(f"rule id {self.id!r}: expected topic/name of lower-case letters, digits and -")
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

    def example(self) -> Finding:
        """Return what is found in the faulty example."""
        raise NotImplementedError


@dataclass(frozen=True, kw_only=True)
class Rule(Question):
    """A question to evidence that an item has gathered: the older form; new ones are a `Probe`.

    Args:
        evidence: the class of what it reads.
        judge: yields a hit for each thing that is wrong; it is given evidence and thresholds, and changes nothing.
        faulty: makes evidence with a hit: the rule's example and its test.
        healthy: makes evidence that is near to it, and has none.
    """

    evidence: type
    judge: Callable[[Any, Any], Iterator[Hit]]
    faulty: Callable[[], Any]
    healthy: Callable[[], Any]

    def findings(self, evidence: Any, chosen: Mapping[str, Any]) -> Iterator[Finding]:
        """Yield what the rule finds in `evidence`.

        Raises:
            CannotJudge: the evidence does not tell.
        """
        return (self.finding(hit) for hit in self.judge(evidence, self.limits(chosen)))

    def example(self) -> Finding:
        return next(self.findings(self.faulty(), {}))
