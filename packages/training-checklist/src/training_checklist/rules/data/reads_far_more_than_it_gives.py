from collections.abc import Iterator
from typing import Any

from training_checklist.engines.sizes import in_bytes
from training_checklist.evidence.loading import BytesRead
from training_checklist.finding import WARNING, Fix
from training_checklist.rule import Hit, Rule, Threshold


def judge(seen: BytesRead, limits: Any) -> Iterator[Hit]:
    if seen.given and seen.read > max(limits.times_read * seen.given, limits.least_read):
        yield Hit(
            f"loading a sample of {in_bytes(seen.given)} reads {in_bytes(seen.read)} from files, each time",
            seen.place,
        )


RULE = Rule(
    id="data/reads-far-more-than-it-gives",
    item="limit_batches",
    question="Does loading a sample read about as much as the sample holds?",
    why="a whole file is read for each part of it, and an epoch reads it as often as it has samples",
    severity=WARNING,
    evidence=BytesRead,
    judge=judge,
    fix=Fix("read it once in __init__, or let numpy.load(..., mmap_mode='r') read parts of an .npy file"),
    faulty=lambda: BytesRead(8, 1_344_560, 3_136),
    # A JPEG of a photograph, of which a crop is taken.
    healthy=lambda: BytesRead(8, 3_000_000, 602_112),
    thresholds={
        "times_read": Threshold(
            100, "times its size: a crop of 224x224 from a photograph of 12 megapixels reads five times its own"
        ),
        "least_read": Threshold(65_536, "bytes: opening a file reads its first blocks, of 4 to 16 KiB"),
    },
)
