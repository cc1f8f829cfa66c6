from collections.abc import Iterator
from typing import Any

from training_checklist.evidence.gradients import SecondMoments
from training_checklist.finding import WARNING, Fix, Place
from training_checklist.rule import Hit, Rule

USUAL = 1e-8  # torch's default: it is not to blame then, but what makes gradients so small


def judge(seen: SecondMoments, limits: Any) -> Iterator[Hit]:
    # By the median: at eps, a step is half of what it is without.
    if not seen.median < seen.eps:
        return
    clip = f"; clipping leaves {seen.kept:.1e} of them" if seen.kept < 1 else ""
    clipped = 0 < seen.kept < 1 and seen.median / seen.kept > seen.eps
    what = (
        f"{seen.optimizer} divides by the root of squared gradients, which is at most {seen.median:.2g} for half of "
        f"the weights, plus eps={seen.eps:g}: their steps are {seen.eps / seen.median + 1:.2g} times smaller{clip}"
    )
    if clipped:
        yield Hit(what, Place(key="trainer.gradient_clip_val"), fix=Fix("remove the clipping, or raise it"))
    elif seen.eps <= USUAL:
        yield Hit(what, Place(note="the gradients of most weights"), fix=Fix("ask why gradients are so small"))
    else:
        yield Hit(what, Place(key="optimizer.eps", value=f"{seen.eps:g}"))


RULE = Rule(
    id="gradients/eps-exceeds-gradients",
    item="gradients",
    question="Is Adam's eps small beside the gradients (their root mean square) that it is added to?",
    why="eps is to keep from a division by 0; where it outweighs the gradients, steps are no longer of the learning "
    "rate's size, and training slows down (arXiv:2309.14322, section 3.4)",
    severity=WARNING,
    evidence=SecondMoments,
    judge=judge,
    fix=Fix("leave it at its default, 1e-8", overrides=("optimizer.eps=1e-8",)),
    faulty=lambda: SecondMoments("Adam", 1.0, median=3e-3),
    healthy=lambda: SecondMoments("Adam", 1e-8, median=3e-6),
    symptom=True,
)
