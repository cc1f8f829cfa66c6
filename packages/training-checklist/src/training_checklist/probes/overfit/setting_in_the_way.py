import torch

from training_checklist.instruments import CLIPPING, DECAY, RATE, Example, OneBatch, explanation, trained_with
from training_checklist.probe import Fix, Hit, Hits, Limits, Place, Probe


def detect(batch: OneBatch, limits: Limits) -> Hits:
    if (trial := explanation(batch, RATE)) is not None:
        too = "low" if trial.given > trial.value else "high"
        yield Hit(
            f"{batch.failure}; with {RATE}={trial.given:.3g} instead of {trial.value:.3g}: {trial}",
            Place(key=RATE, value=f"{trial.value:.3g}"),
            f"the learning rate is too {too}: nothing else differs between the two trainings",
            Fix(overrides=(f"{RATE}={trial.given:.3g}",)),
        )
    if (trial := explanation(batch, DECAY)) is not None:
        yield Hit(
            f"{batch.failure}; without weight decay: {trial}",
            Place(key=DECAY, value=f"{trial.value:g}"),
            "the decay pulls weights to 0 as strongly as the loss pulls them away",
            Fix(overrides=(f"++{DECAY}=0",)),
        )
    if (trial := explanation(batch, CLIPPING)) is not None:
        what, place = f"{batch.failure}; without clipping: {trial}", Place(function="configure_gradient_clipping")
        if trial.value:
            why = f"the first gradient, of norm {batch.grad_norm or 0:.2g}, is cut down to {trial.value:g}"
            place = Place(key=CLIPPING, value=f"{trial.value:g}")
            yield Hit(what, place, why, Fix(overrides=(f"{CLIPPING}=null",)))
        else:
            yield Hit(what, place, fix=Fix("look at what it leaves of gradients"))


def stepping(rate: float = 0.5, **trainer: float) -> Example:
    return trained_with(lambda weights: torch.optim.SGD(weights, lr=rate), **trainer)


def decayed(share: float) -> Example:
    return trained_with(lambda weights: torch.optim.Adam(weights, lr=0.03, weight_decay=share))


PROBE = Probe(
    question="Can one batch be memorised with the configured learning rate, weight decay and gradient clipping?",
    why="from the same weights another setting memorises the batch, and nothing else differs",
    fix=Fix("set it to what memorises the batch"),
    detect=detect,
    aliases=("overfit/gradient-clipping", "overfit/learning-rate", "overfit/weight-decay"),
    faulty=stepping(30.0),
    also_faulty=(decayed(0.3), stepping(gradient_clip_val=1e-6)),
    healthy=stepping(1.0),
    also_healthy=(decayed(1e-4), stepping(gradient_clip_val=1.0)),
)
