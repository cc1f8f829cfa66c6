from torch import nn

from training_checklist.instruments import Example, Norm, fed, norms, of_each, with_part
from training_checklist.probe import Fix, Hit, Hits, Limits, Place, Probe, Threshold

DEFAULT = 0.1  # torch's momentum, which nobody has chosen


@of_each(norms, "no BatchNorm trains")
def detect(norm: Norm, limits: Limits) -> Hits:
    if not norm.tracks or not norm.is_new or norm.momentum is None or norm.momentum >= DEFAULT:
        return
    left = (1 - norm.momentum) ** norm.batches
    if left > limits.max_initial:
        yield Hit(
            f"after all {norm.batches:g} batches {left:.0%} of the running statistics of {norm.path} are still what "
            f"they began with: momentum={norm.momentum:g}",
            Place(module=norm.path),
        )


def normed(momentum: float) -> Example:
    part = with_part(lambda: nn.BatchNorm1d(4, momentum=momentum), lambda norm, answers: norm(answers))
    return fed(part, max_epochs=8)


PROBE = Probe(
    question="Is BatchNorm's momentum large enough for its running statistics to become those of the data?",
    why="validation normalises by them, and sees other inputs than training does",
    detect=detect,
    fix=Fix("momentum=0.1, which is torch's default"),
    thresholds={
        "max_initial": Threshold(
            0.5, "share; beyond it validation normalises more by no data at all than by any data", factor=1.5
        )
    },
    faulty=normed(momentum=0.005),
    healthy=normed(momentum=0.012),
)
