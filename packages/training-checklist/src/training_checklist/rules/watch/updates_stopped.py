from collections.abc import Iterator
from typing import Any

from training_checklist.evidence.whole_training import OptimizerSeries, WatchedStep, ends
from training_checklist.finding import FAILED, Fix
from training_checklist.rule import CannotJudge, Hit, Rule


def judge(series: OptimizerSeries, limits: Any) -> Iterator[Hit]:
    first, last = ends(series.steps)
    if not first:
        raise CannotJudge(f"{len(series.steps)} steps of {series.optimizer} were looked at, which are too few")
    if any(step.moved or step.gradient == 0 or step.rate == 0 for step in last):
        return
    since = next((step.step for step in reversed(series.steps) if step.moved), series.steps[0].step)
    rate = f" at lr={last[-1].rate:g}" if last[-1].rate is not None else ""
    what = f"no weight of {series.optimizer} is another one from step {since} to step {last[-1].step}, though "
    what += f"gradients of norm {last[-1].gradient:.3g} come to it{rate}"
    if all(step.ratio for step in last):
        yield Hit(
            f"{what}: each step moves them, by {last[-1].ratio:.1e} of their norm in the last one, and before the next "
            "they are what they were",
            fix=Fix("look for what loads, copies or averages weights between steps: a callback, a hook"),
        )
    else:
        yield Hit(f"{what}: steps move them by exactly 0")


def example(*steps: tuple[float, bool]) -> OptimizerSeries:
    return OptimizerSeries(
        "Adam", [WatchedStep(step, ratio, 0.3, 1e-3, moved) for step, (ratio, moved) in enumerate(steps)]
    )


RULE = Rule(
    id="watch/updates-stopped",
    item="watch",
    question="Do weights go on changing as long as gradients come?",
    why="training has ended there, whatever the run goes on to do",
    severity=FAILED,
    evidence=OptimizerSeries,
    judge=judge,
    fix=Fix(
        "look for parameters that were replaced after the optimizer was built, and for steps that are smaller than the "
        "weights' type can tell: bfloat16 holds three digits"
    ),
    faulty=lambda: example(*[(1e-3, True)] * 6, *[(1e-3, False)] * 6),
    healthy=lambda: example(*[(1e-3, True)] * 6, *[(1e-7, True)] * 6),
)
