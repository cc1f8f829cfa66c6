from dataclasses import replace

from training_checklist.instruments import ADDED, MOVED, Example, Reader, Step, more_padding, texts
from training_checklist.probe import WARNING, CannotJudge, Fix, Hit, Hits, Limits, Probe


def detect(step: Step, limits: Limits) -> Hits:
    for more in more_padding(step):
        if more.moved is None and more.counted:
            raise CannotJudge("the loss is a mean over positions of padding, too")
        moved = more.moved  # where no criterion shows the answers, the loss tells of them
        moved = abs(more.loss - more.padded) / max(abs(more.loss), abs(more.padded), 1e-12) if moved is None else moved
        if moved <= limits.padding_answers:
            continue
        if more.over_time:
            raise CannotJudge(f"{', '.join(more.over_time)} may read padding on purpose")
        yield Hit(
            f"{ADDED} more positions of padding in {more.leaf} change the answers for the same sequences: the loss is "
            f"{more.padded:.5g} and not {more.loss:.5g}",
            more.where,
        )


PROBE = Probe(
    question="Does a sequence get the same outputs, however much padding follows it?",
    why="padding takes part in attention or in a mean over positions: the outputs for a sequence change with the "
    "length that it is padded to, such as that of the longest one in its batch",
    severity=WARNING,
    fix=Fix("give attention the padding mask (True where padding is), and take means over positions that are none"),
    thresholds={
        "padding_answers": replace(
            MOVED, faulty=Example(lambda: Reader(leak=1e-3), texts), healthy=Example(lambda: Reader(leak=1e-4), texts)
        )
    },
    detect=detect,
    faulty=Example(lambda: Reader(leak=1.0), texts),
    healthy=Example(Reader, texts),
)
