from collections.abc import Iterator
from typing import Any

from training_checklist.evidence.epochs import Norm
from training_checklist.finding import WARNING, Fix, Place
from training_checklist.rule import Hit, Rule


def judge(norm: Norm, limits: Any) -> Iterator[Hit]:
    if not norm.tracks:
        yield Hit(
            f"{norm.path} keeps no running statistics (track_running_stats=False), and normalises by the batch in "
            f"validation, too",
            Place(module=norm.path),
        )


RULE = Rule(
    id="learning/no-running-statistics",
    item="learning",
    question="Does each BatchNorm have running statistics to normalise by in validation?",
    why="what it answers for a sample depends on the others beside it, and one alone has no variance",
    severity=WARNING,
    evidence=Norm,
    judge=judge,
    fix=Fix("track_running_stats=True, or GroupNorm or LayerNorm"),
    faulty=lambda: Norm("net.norm", momentum=0.1, tracks=False, is_new=False, batches=50),
    healthy=lambda: Norm("net.norm", momentum=0.1, tracks=True, is_new=True, batches=50),
)
