from collections.abc import Iterator
from typing import Any

from training_checklist.evidence.values import InputScale
from training_checklist.finding import FAILED, Fix
from training_checklist.rule import CannotJudge, Hit, Rule


def judge(inputs: InputScale, limits: Any) -> Iterator[Hit]:
    if inputs.claim is None or not inputs.pixels:
        raise CannotJudge("the project names no mean and std that images are normalised with")
    looks = inputs.looks(*inputs.claim)
    if looks:
        mean, std = inputs.claim
        yield Hit(
            f"inputs have {inputs}, which fits this: {looks}; the project names mean {mean:.3g} and std {std:.3g}, "
            f"and images of 0..1 would lie between {-mean / std:.3g} and {(1 - mean) / std:.3g}",
            inputs.place,
        )


RULE = Rule(
    id="data/unlike-claim",
    item="limit_batches",
    question="Are images normalised once, with the mean and std that the project names?",
    why="weights and learning rates are made for inputs around 0 with a spread around 1",
    severity=FAILED,
    evidence=InputScale,
    judge=judge,
    fix=Fix("normalise once, with mean and std of pixels in 0..1"),
    faulty=lambda: InputScale(-0.42, 3.25, -1.8, 8.7, pixels=True, claim=(0.1307, 0.3081)),
    # Constants of ImageNet on digits.
    healthy=lambda: InputScale(-1.4, 1.37, -2.0, 2.4, pixels=True, claim=(0.449, 0.226)),
)
