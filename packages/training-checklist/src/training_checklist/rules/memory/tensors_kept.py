from collections.abc import Iterator
from itertools import pairwise
from typing import Any

from training_checklist.engines.sizes import in_bytes
from training_checklist.evidence.memory_use import KeptTensors
from training_checklist.finding import WARNING, Fix, Place
from training_checklist.rule import Hit, Rule, Threshold


def judge(kept: KeptTensors, limits: Any) -> Iterator[Hit]:
    sizes = kept.sizes
    if len(sizes) < 3 or not all(later > earlier for earlier, later in pairwise(sizes)):
        return
    grown, epochs = sizes[-1] - sizes[0], len(sizes) - 1
    if grown >= limits.min_kept_kb * 1024 * epochs:
        last = kept.holder.rpartition(".")[2]
        yield Hit(
            f"{kept.holder} keeps {in_bytes(grown)} more after {epochs} epochs of {kept.steps} steps in all",
            Place(note=kept.holder),
            fix=Fix(f"clear it when the epoch ends: {last}.clear(); or use a metric of torchmetrics"),
        )


RULE = Rule(
    id="memory/tensors-kept",
    item="memory",
    question="Is what an epoch collects cleared when it is over?",
    why="what is collected and never cleared fills memory in the end",
    severity=WARNING,
    evidence=KeptTensors,
    judge=judge,
    fix=Fix("clear it when the epoch ends"),
    thresholds={
        "min_kept_kb": Threshold(1, "KiB in an epoch: a list of losses, 4 bytes a step, is less for up to 256 steps")
    },
    faulty=lambda: KeptTensors("Classifier.outputs", [0, 4096, 8192], steps=12),
    healthy=lambda: KeptTensors("Classifier.losses", [0, 24, 48], steps=12),
)
