from torch import nn

from training_checklist.instruments import Norm, Small, norms, of_each, with_part
from training_checklist.probe import Fix, Hit, Hits, Limits, Place, Probe, Threshold


@of_each(norms, "no BatchNorm trains")
def detect(norm: Norm, limits: Limits) -> Hits:
    if norm.tracks and norm.momentum is not None and norm.momentum > limits.max_momentum:
        yield Hit(
            f"{norm.momentum:.0%} of the running statistics of {norm.path} are those of the last batch alone: "
            f"momentum={norm.momentum:g}",
            Place(module=norm.path),
        )


def normed(momentum: float) -> type[Small]:
    return with_part(lambda: nn.BatchNorm1d(4, momentum=momentum), lambda norm, answers: norm(answers))


PROBE = Probe(
    question="Is BatchNorm's momentum small enough to average its running statistics over many batches?",
    why="torch's momentum is the weight of the new batch, other libraries' that of the old ones: validation normalises "
    "by whatever came last",
    detect=detect,
    fix=Fix("momentum=0.1, which is torch's default: 1 less the momentum of Keras"),
    thresholds={
        "max_momentum": Threshold(0.5, "share; beyond it one batch counts more than all others together", factor=1.5)
    },
    faulty=normed(momentum=0.6),
    healthy=normed(momentum=0.4),
)
