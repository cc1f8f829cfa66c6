from collections.abc import Iterator
from typing import Any

from training_checklist.engines.sizes import GIB, in_bytes
from training_checklist.evidence.memory_use import PredictedPeak
from training_checklist.finding import FAILED, WARNING, Fix, Place
from training_checklist.rule import CannotJudge, Hit, Rule


def judge(peak: PredictedPeak, limits: Any) -> Iterator[Hit]:
    if peak.bytes is None:
        raise CannotJudge(f"no peak was predicted: {peak.reason}")
    if peak.bytes <= (peak.budget_gb - peak.overhead_gb) * GIB:
        return
    assumed = ", which is assumed: say what your accelerator has" if peak.assumed else ""
    yield Hit(
        f"predicted peak {in_bytes(peak.bytes)} + {peak.overhead_gb:g} GiB overhead exceeds the budget of "
        f"{peak.budget_gb:g} GiB{assumed}; largest part: {peak.largest}\n{peak.parts}",
        peak.place,
        fix=Fix(peak.advice, overrides=peak.overrides),
        severity=WARNING if peak.assumed else FAILED,
    )


RULE = Rule(
    id="memory/peak-above-budget",
    item="memory",
    question="Does a training step fit into the accelerator's memory?",
    why="training ends with 'out of memory' on such an accelerator; the overhead is its context, workspaces of kernels "
    "and fragmentation, which are not predicted",
    severity=FAILED,
    evidence=PredictedPeak,
    judge=judge,
    fix=Fix("a smaller batch, or a larger accelerator"),
    faulty=lambda: PredictedPeak(
        3 * GIB,
        2,
        overhead_gb=0.5,
        largest="activations of net, 2.1 GiB",
        advice="8 samples fit",
        place=Place(module="net"),
    ),
    healthy=lambda: PredictedPeak(GIB, 2, overhead_gb=0.5),
)
