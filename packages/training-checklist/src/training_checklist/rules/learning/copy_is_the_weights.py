from collections.abc import Iterator
from typing import Any

from training_checklist.evidence.averages import Aliases
from training_checklist.finding import WARNING, Fix
from training_checklist.rule import Hit, Rule


def judge(aliases: Aliases, limits: Any) -> Iterator[Hit]:
    if aliases.number:
        yield Hit(
            f"{aliases.owner} keeps {aliases.number} tensors that share their memory with weights that train, of "
            f"{aliases.weights}: no copy, and no average, but what the weights are at any time",
            aliases.place,
        )


RULE = Rule(
    id="learning/copy-is-the-weights",
    item="learning",
    question="Are copies of the weights (for an average or a teacher) real copies that do not share memory?",
    why="state_dict() and detach() give the weights themselves; an average, a backup or the best state must be cloned",
    severity=WARNING,
    evidence=Aliases,
    judge=judge,
    fix=Fix("{name: value.detach().clone() for name, value in module.state_dict().items()}, or copy.deepcopy"),
    faulty=lambda: Aliases("EMA.shadow", 8, 8),
    healthy=lambda: Aliases("", 0, 8),
)
