from torch import nn

from training_checklist.instruments import Example, Norm, norms, of_each, several_steps, with_part
from training_checklist.probe import Fix, Hit, Hits, Limits, Place, Probe, Threshold


@of_each(norms, "no BatchNorm trains")
def detect(norm: Norm, limits: Limits) -> Hits:
    if not norm.tracks or norm.momentum is None:
        return
    left, default = (1 - norm.momentum) ** norm.batches, nn.BatchNorm1d(1).momentum
    if norm.momentum > limits.max_momentum:
        yield Hit(
            f"{norm.momentum:.0%} of the running statistics of {norm.path} are those of the last batch alone: "
            f"momentum={norm.momentum:g}",
            Place(module=norm.path),
            "torch's momentum is the weight of the new batch, other libraries' that of the old ones: validation "
            "normalises by whatever came last",
        )
    elif norm.is_new and left > limits.max_initial and norm.momentum < default:  # nobody has chosen the default
        yield Hit(
            f"after all {norm.batches:g} batches {left:.0%} of the running statistics of {norm.path} are still what "
            f"they began with: momentum={norm.momentum:g}",
            Place(module=norm.path),
        )


def normed(momentum: float) -> Example:
    part = with_part(lambda: nn.BatchNorm1d(4, momentum=momentum), lambda norm, answers: norm(answers))
    return several_steps(part, max_epochs=8)


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
)
