from collections.abc import Iterator
from typing import Any

from training_checklist.evidence.values import Entering
from training_checklist.finding import WARNING, Fix
from training_checklist.rule import CannotJudge, Hit, Rule, Threshold


def judge(inputs: Entering, limits: Any) -> Iterator[Hit]:
    if not inputs.columns:
        raise CannotJudge("no layer takes columns of a table")
    sizes = [max(abs(mean), std) for mean, std in inputs.columns]
    far = [index for index, size in enumerate(sizes) if size > limits.max_column]
    if far:
        worst = max(far, key=sizes.__getitem__)
        mean, std = inputs.columns[worst]
        more = f", and {len(far) - 1} more of {len(sizes)}" if len(far) > 1 else f", of {len(sizes)} columns"
        yield Hit(
            f"column {worst} of {inputs.place.note} enters {inputs.place.module} with mean {mean:.3g} and standard "
            f"deviation {std:.3g}{more}",
            inputs.place,
        )


RULE = Rule(
    id="data/column-off-scale",
    item="limit_batches",
    question="Do the columns of a table, or the numbers of a step, enter the network around 0 with a spread around 1?",
    why="one column outweighs the others, and a rate that is right for it is far too low for them",
    severity=WARNING,
    evidence=Entering,
    judge=judge,
    fix=Fix("subtract the mean of the training set from each column and divide by its standard deviation"),
    faulty=lambda: Entering(-2.0, 90.0, columns=[(44.1, 18.2), (0.3, 0.5)]),
    healthy=lambda: Entering(-2.0, 6.1, columns=[(0.1, 1.2), (0.3, 0.5)]),
    thresholds={
        "max_column": Threshold(
            10,
            "of mean or deviation: the loss curves with the square of an input, so that steps must be 100 times as "
            "short as for a standardised column (LeCun et al., Efficient BackProp, 1998, 4.3)",
        )
    },
)
