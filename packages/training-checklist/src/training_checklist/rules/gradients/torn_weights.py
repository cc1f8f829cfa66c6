from collections.abc import Iterator
from typing import Any

from training_checklist.evidence.gradients import Updates
from training_checklist.finding import WARNING, Fix, Place
from training_checklist.rule import Hit, Rule, Threshold


def judge(updates: Updates, limits: Any) -> Iterator[Hit]:
    size, first = max(updates.ratios), updates.losses[0]
    last = sum(updates.losses[-3:]) / len(updates.losses[-3:])
    rises = last - first > limits.max_rise * abs(first)
    if size > (limits.max_update if rises else limits.max_update_alone):
        yield Hit(
            f"a step at the rate that is led to changes the weights by {size:.3g} times their norm"
            + (f", and the loss rises: {first:.4g} to {last:.4g}" if rises else ""),
            Place(key="optimizer.lr", value=f"{updates.rate:g}"),
        )


RULE = Rule(
    id="gradients/torn-weights",
    item="gradients",
    question="Are the optimizer's steps smaller than the weights that they change?",
    why="what the weights were is gone after such a step: the learning rate is too high, or the gradients are; where "
    "norms hide it from the loss, the weights become so large that later steps hardly move them",
    severity=WARNING,
    evidence=Updates,
    judge=judge,
    fix=Fix("it tries other learning rates", items=("learning",)),
    faulty=lambda: Updates([300.0] * 10, [2.3, 900.0], 10.0),
    healthy=lambda: Updates([1.9] * 10, [2.3, 1.1], 0.1),
    thresholds={
        "max_update": Threshold(1.0, "of the weights' norm: a longer step leaves nothing of where it started from"),
        "max_update_alone": Threshold(
            2.0,
            "of the weights' norm, whatever the loss does; the most of 41 healthy variants and 13 projects is 0.42, of "
            "RMSprop in its first step, and usual is 1e-3 (cs231n.github.io/neural-networks-3/#ratio)",
        ),
        "max_rise": Threshold(
            0.5,
            "of the first loss, at the mean of the last three: from batch to batch healthy ones rose by 0.01 at most",
        ),
    },
    symptom=True,
)
