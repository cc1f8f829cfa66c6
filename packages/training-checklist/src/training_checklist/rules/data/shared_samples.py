from collections.abc import Iterator
from typing import Any

from training_checklist.engines.chance import CHANCE, at_least
from training_checklist.evidence.shared import SharedSamples
from training_checklist.finding import FAILED, Fix
from training_checklist.rule import Hit, Rule, Threshold


def judge(found: SharedSamples, limits: Any) -> Iterator[Hit]:
    if found.of_several and found.shared == found.total >= found.rows:
        return  # all of the training set, beside the split itself: a gallery of neighbours, or for comparison
    if found.same_dataset:
        leaks = found.shared > 0
    elif found.repeatable:
        # A fair split shares rows as often as the training set repeats its own; 3 in n: what n rows may have hidden.
        leaks = at_least(found.shared, found.total, min((found.repeated + 3) / max(found.rows, 1), 1.0)) < CHANCE
    else:
        leaks = found.shared > limits.max_shared * found.total
    if leaks:
        yield Hit(
            f"{found.shared} of {found.total} samples of {found.name} are in the training set too",
            found.place.beside(sample=found.first),
        )


RULE = Rule(
    id="data/shared-samples",
    item="limit_batches",
    question="Are held-out samples absent from the training set?",
    why="the network knows them by heart: its metrics there say nothing about new data",
    severity=FAILED,
    evidence=SharedSamples,
    judge=judge,
    fix=Fix("make the splits disjoint: one permutation of the indices, cut once"),
    faulty=lambda: SharedSamples("val_dataloader", shared=5, total=45, first=0, same_dataset=True),
    # A table of few categories: most rows of any part are in any other.
    healthy=lambda: SharedSamples(
        "val_dataloader", shared=95, total=100, first=0, same_dataset=False, repeatable=True, repeated=960, rows=1000
    ),
    thresholds={
        "max_shared": Threshold(
            0.01,
            "share of held-out samples with an exact copy among the training ones; CIFAR-10 has 3.3 % near duplicates "
            "(Barz and Denzler 2020), of which few are exact, and MNIST's sample and scikit-learn's digits have none",
        )
    },
)
