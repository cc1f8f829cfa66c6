from collections.abc import Iterator
from typing import Any

from training_checklist.evidence.whole_training import OptimizerSeries, WatchedStep, ends
from training_checklist.finding import FAILED, Fix, Place
from training_checklist.rule import CannotJudge, Hit, Rule


def judge(series: OptimizerSeries, limits: Any) -> Iterator[Hit]:
    first, last = ends(series.steps)
    if not first:
        raise CannotJudge(f"{len(series.steps)} steps of {series.optimizer} were looked at, which are too few")
    given = [step for step in last if step.gradient > 0 and step.rate != 0]
    if not any(step.ratio for step in first) or len(given) < len(last) or any(step.ratio for step in given):
        return
    since = next(later for step, later in zip(series.steps[-2::-1], series.steps[::-1], strict=False) if step.ratio)
    rate = f" at lr={since.rate:g}" if since.rate is not None else ""
    yield Hit(
        f"{series.optimizer} changes no weight any more from step {since.step} on, though gradients of norm "
        f"{last[-1].gradient:.3g} come to it{rate}",
        Place(key="optimizer"),
    )


def example(*ratios: float) -> OptimizerSeries:
    return OptimizerSeries("Adam", [WatchedStep(step, ratio, 0.3, 1e-3) for step, ratio in enumerate(ratios)])


RULE = Rule(
    id="watch/updates-stopped",
    item="watch",
    question="Do steps go on changing the weights as long as gradients come?",
    why="training has ended there, whatever the run goes on to do; an update of exactly 0 is no matter of a small rate",
    severity=FAILED,
    evidence=OptimizerSeries,
    judge=judge,
    fix=Fix(
        "look for what puts weights back or replaces parameters from that step on (a callback, a hook, an average), "
        "and for steps that are smaller than the weights' type can tell (bfloat16 holds 3 digits)"
    ),
    faulty=lambda: example(*[1e-3] * 6, *[0.0] * 6),
    healthy=lambda: example(*[1e-3] * 6, *[1e-7] * 6),
)
