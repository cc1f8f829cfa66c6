from dataclasses import replace
from itertools import pairwise
from typing import Any

from torch.optim import SGD

from training_checklist.instruments import MANY, SMOOTH, Example, Schedules, Small, hook_courses, loader
from training_checklist.probe import WARNING, Fix, Hit, Hits, Limits, Probe, Threshold

STEPS = 40  # of the examples: 5 epochs of 8 batches


def detect(schedules: Schedules, limits: Limits) -> Hits:
    steps = schedules.trainer.estimated_stepping_batches
    for each in hook_courses(schedules):
        falls = all(later < earlier for earlier, later in pairwise(each.values))
        first, last, end = each.values[0], each.values[-1], each.at[-1]
        is_over = last <= limits.max_floor * first and steps >= limits.many * end
        if falls and is_over and len(each.at) > limits.min_smooth:
            yield Hit(
                f"{each.what} falls from {first:.3g} to {last:.3g} in {end} of {steps} steps, and stays there: an "
                f"epoch has {each.per_epoch}",
                each.place,
            )


def over_after(steps: int, floor: float = 0.0) -> Example:
    class Decaying(Small):
        def on_before_optimizer_step(self, optimizer: Any) -> None:
            for group in optimizer.param_groups:
                share = min(self.trainer.global_step / steps, 1)
                group["weight_decay"] = 0.1 * (1 - (1 - floor) * share)

        def configure_optimizers(self) -> SGD:
            return SGD(self.parameters(), 0.01, weight_decay=0.1)

    brief = {"samples": 4, "steps": 1, "max_steps": 1, "seconds": 0}
    return Example(Decaying, lambda: loader(4), trainer={"max_epochs": STEPS // 8}, item=brief)


PROBE = Probe(
    question="Does what a hook sets along a schedule (a weight decay, the rate of an average) reach its lowest value "
    "only near the end of the run?",
    why="the rest of the run goes on with the lowest value: a weight decay does next to nothing, an average stands "
    "still; the schedule's length is that of an epoch, or another one that is not the run's",
    severity=WARNING,
    fix=Fix("make its length trainer.estimated_stepping_batches (where it counts global_step) or trainer.max_epochs"),
    detect=detect,
    thresholds={
        "many": replace(MANY, faulty=over_after(10), healthy=over_after(16)),
        "min_smooth": replace(SMOOTH, faulty=over_after(8), healthy=over_after(4)),
        "max_floor": Threshold(
            0.1,
            "of its first value: what is left of a setting at a milestone, by default; more of it is still at work",
            factor=2.0,
            faulty=over_after(10, 0.08),
            healthy=over_after(10, 0.15),
        ),
    },
    faulty=over_after(10),
    healthy=over_after(STEPS),
)
