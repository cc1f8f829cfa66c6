from collections.abc import Iterator
from typing import Any

from training_checklist.evidence.one_batch import SilentSamples
from training_checklist.finding import FAILED, WARNING, Fix
from training_checklist.rule import Hit, Rule


def judge(samples: SilentSamples, limits: Any) -> Iterator[Hit]:
    if samples.silent:
        every = samples.silent == samples.of
        classes = ", ".join(map(str, samples.classes[:10]))
        yield Hit(
            f"{samples.options} asks nothing of {samples.silent} of {samples.of} samples, of class {classes}",
            samples.place,
            severity=FAILED if every else WARNING,
        )


RULE = Rule(
    id="overfit/samples-without-effect",
    item="overfit",
    question="Does every sample of the batch count in the loss?",
    why="where the network knows nothing, these samples have no gradient, and without the criterion's options "
    "they have one: whatever it answers for them is as good",
    severity=FAILED,
    evidence=SilentSamples,
    judge=judge,
    fix=Fix("change the criterion's options; leave out of the data what is to be ignored"),
    faulty=lambda: SilentSamples(4, 16, [0], "cross_entropy(ignore_index=0)"),
    healthy=lambda: SilentSamples(0, 16, [], "cross_entropy(label_smoothing=0.1)"),
)
