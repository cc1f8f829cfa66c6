import math

from torch.nn import functional

from training_checklist.instruments import Example, Numbers, project
from training_checklist.probe import CannotJudge, Fix, Hit, Hits, Limits, Probe, Threshold

SCALE = 65536  # that torch.amp.GradScaler starts from
STEEP = project(lambda answers, labels: 100 * functional.cross_entropy(answers, labels)).module  # norms are beyond 1


def detect(numbers: Numbers, limits: Limits) -> Hits:
    known = [(given, used) for given, used in numbers.norms if 0 < given < math.inf and used > 0]
    if not known:
        raise CannotJudge("no step of a single optimizer was seen with gradients before and after clipping")
    if not all(used < limits.clipped * min(1, given) for given, used in known):
        return
    given, used = known[-1]
    yield Hit(
        f"gradients shrink from a norm of {given:.3g} after backward to {used:.3g} in the optimizer's step, "
        f"in all of {len(known)} steps",
        numbers.clips,
        f"steps follow what is left of them; {used * SCALE:.3g} / {SCALE} is {used:.3g}: "
        f"a clip of gradients that a scaler has multiplied by {SCALE} cuts them by that too",
    )


PROBE = Probe(
    item="overflow",
    question="Does gradient clipping leave the optimizer gradients that are more than next to nothing?",
    why="the optimizer's steps follow what clipping has left of them",
    fix=Fix("clip after unscaling: take the clipping out of the hook", ("trainer.gradient_clip_val=1.0",)),
    detect=detect,
    thresholds={
        "clipped": Threshold(
            1e-3,
            "norm, and share of backward's norm, below which it is no clip that is meant: those of published "
            "recipes reach from 0.1 (DETR, arXiv:2005.12872) to 40 (A3C, arXiv:1602.01783)",
        )
    },
    faulty=Example(STEEP, trainer={"gradient_clip_val": 6e-4}),
    healthy=Example(STEEP, trainer={"gradient_clip_val": 2e-3}),
)
