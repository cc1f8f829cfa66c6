import torch

from training_checklist.instruments import DECAY, Example, OneBatch, explanation, trained_with
from training_checklist.probe import Fix, Hit, Hits, Limits, Place, Probe


def detect(batch: OneBatch, limits: Limits) -> Hits:
    trial = explanation(batch, DECAY)
    if trial is not None:
        yield Hit(f"{batch.failure}; without weight decay: {trial}", Place(key=DECAY, value=f"{trial.value:g}"))


def decayed(share: float) -> Example:
    return trained_with(lambda weights: torch.optim.Adam(weights, lr=0.03, weight_decay=share))


PROBE = Probe(
    question="Can one batch be memorised in spite of weight decay?",
    why="the decay pulls weights to 0 as strongly as the loss pulls them away: from the same weights, and with nothing "
    "else changed, it is learnt without",
    fix=Fix(overrides=(f"++{DECAY}=0",)),
    detect=detect,
    faulty=decayed(0.3),
    healthy=decayed(1e-4),
)
