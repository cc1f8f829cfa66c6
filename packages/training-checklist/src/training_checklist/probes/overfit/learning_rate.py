import torch

from training_checklist.instruments import RATE, OneBatch, explanation, trained_with
from training_checklist.probe import Fix, Hit, Hits, Limits, Place, Probe


def detect(batch: OneBatch, limits: Limits) -> Hits:
    trial = explanation(batch, RATE)
    if trial is not None:
        too = "low" if trial.given > trial.value else "high"
        yield Hit(
            f"{batch.failure}; with {RATE}={trial.given:.3g} instead of {trial.value:.3g}: {trial}",
            Place(key=RATE, value=f"{trial.value:.3g}"),
            f"the learning rate is too {too}: nothing else differs between the two trainings",
            Fix(overrides=(f"{RATE}={trial.given:.3g}",)),
        )


PROBE = Probe(
    question="Can one batch be memorised with the configured learning rate?",
    why="from the same weights another rate memorises the batch",
    fix=Fix("set the learning rate to what memorises the batch"),
    detect=detect,
    faulty=trained_with(lambda weights: torch.optim.SGD(weights, lr=30.0)),
    healthy=trained_with(lambda weights: torch.optim.SGD(weights, lr=1.0)),
)
