from typing import Any

from torch import nn

from training_checklist.instruments import Example, TwoEpochs, norms, several_steps, shown, with_part
from training_checklist.probe import CannotJudge, Fix, Hit, Hits, Limits, Place, Probe, Threshold


def detect(run: TwoEpochs, limits: Limits) -> Hits:
    """Look at all norms of one momentum together: a network is built with one."""
    found = norms(run)
    if not found:
        raise CannotJudge("no BatchNorm trains")
    default = nn.BatchNorm1d(1).momentum
    for momentum in dict.fromkeys(norm.momentum for norm in found if norm.tracks and norm.momentum is not None):
        alike = [norm for norm in found if norm.tracks and norm.momentum == momentum]
        new = [norm for norm in alike if norm.is_new]
        left = (1 - momentum) ** alike[0].batches
        if momentum > limits.max_momentum:
            names = shown([norm.path for norm in alike], 3)
            yield Hit(
                f"{momentum:.0%} of the running statistics of {names} are those of the last batch alone: "
                f"momentum={momentum:g}",
                Place(module=names),
                "torch's momentum is the weight of the new batch, other libraries' that of the old ones: validation "
                "normalises by whatever came last",
            )
        elif new and left > limits.max_initial and momentum < default:  # nobody has chosen the default
            names = shown([norm.path for norm in new], 3)
            yield Hit(
                f"after all {new[0].batches:g} batches {left:.0%} of the running statistics of {names} are still what "
                f"they began with: momentum={momentum:g}",
                Place(module=names),
            )


def normed(momentum: float, **trainer: Any) -> Example:
    part = with_part(lambda: nn.BatchNorm1d(4, momentum=momentum), lambda norm, answers: norm(answers))
    return several_steps(part, **{"max_epochs": 8, **trainer})


PROBE = Probe(
    question="Is BatchNorm's momentum such that its running statistics become those of many batches?",
    why="validation normalises by them, and sees other inputs than training does",
    detect=detect,
    fix=Fix("momentum=0.1, which is torch's default: 1 less the momentum of Keras"),
    aliases=("learning/statistics-never-arrive", "learning/statistics-of-the-last-batch"),
    thresholds={
        "max_initial": Threshold(
            0.5, "share; beyond it validation normalises more by no data at all than by any data", factor=1.5
        ),
        "max_momentum": Threshold(
            0.5,
            "share; beyond it one batch counts more than all others together",
            factor=1.5,
            faulty=normed(0.6),
            healthy=normed(0.4),
        ),
    },
    faulty=normed(0.005),
    healthy=normed(0.012),
    also_healthy=(normed(0.012, limit_train_batches=1),),
)
