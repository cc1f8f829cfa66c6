import math
from collections.abc import Iterator
from typing import Any

from training_checklist.evidence.numerics import ClippedNorms
from training_checklist.finding import FAILED, Fix, Place
from training_checklist.rule import CannotJudge, Hit, Rule, Threshold

SCALE = 65536  # that torch.amp.GradScaler starts from


def judge(clipped: ClippedNorms, limits: Any) -> Iterator[Hit]:
    known = [(given, used) for given, used in clipped.norms if 0 < given < math.inf and used > 0]
    if not known:
        raise CannotJudge("no step of a single optimizer was seen with gradients before and after clipping")
    if not all(used < limits.clipped * min(1, given) for given, used in known):
        return
    given, used = known[-1]
    yield Hit(
        f"gradients shrink from a norm of {given:.3g} after backward to {used:.3g} in the optimizer's step, "
        f"in all of {len(known)} steps",
        clipped.place,
        f"steps follow what is left of them; {used * SCALE:.3g} / {SCALE} is {used:.3g}: "
        f"a clip of gradients that a scaler has multiplied by {SCALE} cuts them by that too",
    )


RULE = Rule(
    id="numerics/clipped-to-nothing",
    item="overflow",
    question="Does clipping leave the optimizer a gradient of a usual size?",
    why="steps follow what is left of them",
    severity=FAILED,
    evidence=ClippedNorms,
    judge=judge,
    fix=Fix("clip after unscaling: take the clipping out of the hook", ("trainer.gradient_clip_val=1.0",)),
    faulty=lambda: ClippedNorms([(2.0, 1.5e-5), (3.0, 1.5e-5)], Place(function="Net.on_after_backward")),
    healthy=lambda: ClippedNorms([(2.0, 0.1), (3.0, 0.1)]),
    thresholds={
        "clipped": Threshold(
            1e-3,
            "norm, and share of backward's norm, below which it is no clip that is meant: those of published "
            "recipes reach from 0.1 (DETR, arXiv:2005.12872) to 40 (A3C, arXiv:1602.01783)",
        )
    },
)
