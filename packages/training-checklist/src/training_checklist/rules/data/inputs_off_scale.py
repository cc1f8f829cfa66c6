from collections.abc import Iterator
from typing import Any

from training_checklist.evidence.values import TWICE, InputScale
from training_checklist.finding import FAILED, WARNING, Fix
from training_checklist.rule import CannotJudge, Hit, Rule, Threshold


def judge(inputs: InputScale, limits: Any) -> Iterator[Hit]:
    if not inputs.pixels:
        raise CannotJudge("inputs are no images of 8 bits, and other data may have any scale")
    far = inputs.std > limits.max_std or abs(inputs.mean) > limits.max_mean
    if not far or (inputs.claim is not None and inputs.looks(*inputs.claim)):  # which another rule says
        return
    text, severity = explained(inputs)
    yield Hit(f"images enter with {inputs}: {text}", inputs.place, severity=severity)


def explained(inputs: InputScale) -> tuple[str, str]:
    if inputs.claim is not None:
        mean, std = inputs.claim
        return f"mean {mean:.3g} and std {std:.3g}, which the project names, are not those of its pixels", FAILED
    if inputs.low >= 0:
        return "as if they were never normalised", WARNING
    std = 1 / inputs.std  # of the second of two normalisations, after the first one has made it 1
    mean = -inputs.mean * std
    if 0 < mean < 1 and inputs.looks(mean, std) == TWICE:
        return f"their range fits that {TWICE}, with mean {mean:.2f} and std {std:.2f}", FAILED
    return "they were shifted and scaled, but not by their own mean and std", WARNING


RULE = Rule(
    id="data/inputs-off-scale",
    item="limit_batches",
    question="Do images enter the network around 0 with a spread around 1?",
    why="weights and learning rates are made for such inputs",
    severity=WARNING,
    evidence=InputScale,
    judge=judge,
    fix=Fix("normalise once, with mean and std of the training set; or let the network begin with a norm"),
    faulty=lambda: InputScale(33.3, 78.6, 0, 255, pixels=True),
    healthy=lambda: InputScale(-1.4, 1.37, -2.0, 2.4, pixels=True),
    thresholds={
        "max_std": Threshold(
            2.3, "pixels of 0..1 have a std of at most 0.5 (Popoviciu), and ImageNet's is 0.224: 2.23"
        ),
        "max_mean": Threshold(2.7, "white pixels under ImageNet's constants: (1 - 0.406) / 0.225 = 2.64"),
    },
)
