from dataclasses import replace
from math import isclose

from training_checklist.instruments import ADDED, MOVED, Example, Reader, Step, more_padding, texts
from training_checklist.probe import WARNING, CannotJudge, Fix, Hit, Hits, Limits, Probe, Threshold


def detect(step: Step, limits: Limits) -> Hits:
    found = more_padding(step)
    if all(more.moved is None for more in found):
        raise CannotJudge("no criterion shows the answers, so that the loss may have changed with them")
    for more in found:
        same_answers = more.moved is not None and more.moved <= limits.padding_answers
        if same_answers and not isclose(more.loss, more.padded, rel_tol=limits.padding_loss):
            yield Hit(
                f"{ADDED} more positions of padding in {more.leaf} change the loss from {more.loss:.5g} to "
                f"{more.padded:.5g}, and no answer to a sequence: the loss counts padding",
                more.where,
            )


PROBE = Probe(
    question="Does the loss stay the same, however much padding the sequences of a batch have?",
    why="padding is easy to predict: it makes the loss look low, and batches with a long sequence count less",
    severity=WARNING,
    fix=Fix("give padding the criterion's ignore_index as target, or take the mean over positions that are none"),
    thresholds={
        "padding_loss": Threshold(
            1e-4,
            "relative, of losses: float32 in another arrangement of its additions differs by some 1e-6, and two more "
            "positions of padding in a hundred by a hundredth",
            factor=10.0,
            faulty=Example(lambda: Reader(counted=1e-2), texts),
            healthy=Example(lambda: Reader(counted=1e-3), texts),
        ),
        "padding_answers": replace(
            MOVED,
            faulty=Example(lambda: Reader(leak=1e-4, counted=1.0), texts),
            healthy=Example(lambda: Reader(leak=1e-3, counted=1.0), texts),
        ),
    },
    detect=detect,
    faulty=Example(lambda: Reader(counted=1.0), texts),
    healthy=Example(Reader, texts),
)
