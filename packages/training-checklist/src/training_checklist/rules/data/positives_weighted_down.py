from collections.abc import Iterator
from typing import Any

from training_checklist.engines.chance import CHANCE, at_least, at_most
from training_checklist.evidence.labels import PositiveWeights
from training_checklist.finding import WARNING, Fix
from training_checklist.rule import Hit, Rule


def judge(outputs: PositiveWeights, limits: Any) -> Iterator[Hit]:
    against = []
    for number, (weight, positives) in enumerate(zip(outputs.weights, outputs.positives, strict=True)):
        rare = at_most(positives, outputs.labels, 0.5) < CHANCE
        frequent = at_least(positives, outputs.labels, 0.5) < CHANCE
        if (rare and weight > 1) or (frequent and weight < 1):
            return
        against += [number] if (rare and weight < 1) or (frequent and weight > 1) else []
    if against:
        worst = max(against, key=lambda number: abs(outputs.positives[number] / outputs.labels - 0.5))
        share = outputs.positives[worst] / outputs.labels
        rarer = "rare" if share < 0.5 else "frequent"
        yield Hit(
            f"pos_weight makes the {rarer} side of the labels count for "
            f"{'less' if share < 0.5 else 'more'}: {100 * share:.3g}% of output {worst} are positive, and their weight "
            f"is {outputs.weights[worst]:.3g}",
            outputs.place,
        )


RULE = Rule(
    id="data/positives-weighted-down",
    item="limit_batches",
    question="Does pos_weight make up for rare positives?",
    why="torch multiplies the loss of positives by pos_weight: negatives / positives gives both sides the same weight, "
    "and its inverse makes the network neglect rare positives all the more",
    severity=WARNING,
    evidence=PositiveWeights,
    judge=judge,
    fix=Fix("pos_weight = negatives / positives, for each output"),
    faulty=lambda: PositiveWeights([0.1, 0.3], [100, 250], 1000),
    healthy=lambda: PositiveWeights([9.0, 0.3], [100, 750], 1000),
)
