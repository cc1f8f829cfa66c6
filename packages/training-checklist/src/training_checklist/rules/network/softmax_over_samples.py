from collections.abc import Iterator
from typing import Any

from training_checklist.evidence.network import SoftmaxCall, Softmaxes, by
from training_checklist.finding import FAILED, Fix
from training_checklist.rule import Hit, Rule


def judge(softmaxes: Softmaxes, limits: Any) -> Iterator[Hit]:
    for call in softmaxes.calls:
        # As many features or steps in time as samples is rare where there are rows of features, (B, C).
        over_samples = len(call.shape) == 2 if call.follows_batch is None else call.follows_batch
        if over_samples and not call.of_pairs:
            what = f"softmax over dim 0 of {by(call.shape)}: over the {softmaxes.batch_size} samples"
            yield Hit(what, call.place)


RULE = Rule(
    id="network/softmax-over-samples",
    item="trace",
    question="Is every softmax over the classes or features of one sample?",
    why="each sample's result depends on the samples that happen to be in its batch",
    severity=FAILED,
    evidence=Softmaxes,
    judge=judge,
    fix=Fix("give it dim=1 (or -1)"),
    faulty=lambda: Softmaxes([SoftmaxCall((16, 4), follows_batch=True)], 16),
    healthy=lambda: Softmaxes([SoftmaxCall((16, 8, 4), follows_batch=False)], 16),
)
