import torch

from training_checklist.instruments import CLIPPING, Example, OneBatch, explanation, trained_with
from training_checklist.probe import Fix, Hit, Hits, Limits, Place, Probe


def detect(batch: OneBatch, limits: Limits) -> Hits:
    trial = explanation(batch, CLIPPING)
    if trial is None:
        return
    what = f"{batch.failure}; without clipping: {trial}"
    if trial.value:
        why = f"the first gradient, of norm {batch.grad_norm or 0:.2g}, is cut down to {trial.value:g}"
        yield Hit(what, Place(key=CLIPPING, value=f"{trial.value:g}"), why)
    else:
        yield Hit(what, Place(function="configure_gradient_clipping"), fix=Fix("look at what it leaves of gradients"))


def clipped(norm: float) -> Example:
    return trained_with(lambda weights: torch.optim.SGD(weights, lr=0.5), gradient_clip_val=norm)


PROBE = Probe(
    question="Can one batch be memorised in spite of gradient clipping?",
    why="nothing else differs between the two trainings",
    fix=Fix(overrides=(f"{CLIPPING}=null",)),
    detect=detect,
    faulty=clipped(1e-6),
    healthy=clipped(1.0),
)
