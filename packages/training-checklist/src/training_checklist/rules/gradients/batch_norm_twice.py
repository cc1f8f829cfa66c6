from collections.abc import Iterator
from typing import Any

from training_checklist.evidence.gradients import NormInputs
from training_checklist.finding import WARNING, Fix, Place
from training_checklist.rule import Hit, Rule


def judge(seen: NormInputs, limits: Any) -> Iterator[Hit]:
    if seen.twice:
        yield Hit(
            f"batch normalisation is given the very same input twice in a training step, in {len(seen.twice)} "
            f"of {seen.layers} layers",
            seen.twice[0],
        )


RULE = Rule(
    id="gradients/batch-norm-twice",
    item="gradients",
    question="Does each BatchNorm see the same input only once in a training step?",
    why="its running statistics count the batch twice, and the forward pass is paid for twice",
    severity=WARNING,
    evidence=NormInputs,
    judge=judge,
    fix=Fix("call the network once and use its output for the loss and for the metrics"),
    faulty=lambda: NormInputs(2, [Place(module="net.norm (BatchNorm1d)")]),
    healthy=lambda: NormInputs(2),
)
