from collections.abc import Iterator
from typing import Any

from training_checklist.evidence.network import DeadTerm, DeadTerms
from training_checklist.finding import WARNING, Fix
from training_checklist.rule import Hit, Rule


def judge(seen: DeadTerms, limits: Any) -> Iterator[Hit]:
    for term in seen.terms:
        yield Hit(f"a term of the loss, {term.value:.4g} in this step, is computed from detached answers", term.place)


RULE = Rule(
    id="network/term-without-gradient",
    item="trace",
    question="Does each term of the loss have a gradient?",
    why="it changes the loss that is logged and no weight: its factor, whatever it is, does nothing",
    severity=WARNING,
    evidence=DeadTerms,
    judge=judge,
    fix=Fix("compute it from the answers themselves, without detach(), .data, .item() or no_grad on the way"),
    faulty=lambda: DeadTerms([DeadTerm("add", 0.31)]),
    healthy=lambda: DeadTerms(),
)
