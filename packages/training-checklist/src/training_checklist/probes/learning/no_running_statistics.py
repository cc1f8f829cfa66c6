from torch import nn

from training_checklist.instruments import Norm, Small, norms, of_each, with_part
from training_checklist.probe import WARNING, Fix, Hit, Hits, Limits, Place, Probe


@of_each(norms, "no BatchNorm trains")
def detect(norm: Norm, limits: Limits) -> Hits:
    if not norm.tracks:
        yield Hit(
            f"{norm.path} keeps no running statistics (track_running_stats=False), and normalises by the batch in "
            f"validation, too",
            Place(module=norm.path),
        )


def normed(tracks: bool) -> type[Small]:
    return with_part(lambda: nn.BatchNorm1d(4, track_running_stats=tracks), lambda norm, answers: norm(answers))


PROBE = Probe(
    question="Does each BatchNorm have running statistics to normalise by in validation?",
    why="in validation its output for a sample depends on the other samples of the batch, and a single sample has no "
    "variance",
    severity=WARNING,
    detect=detect,
    fix=Fix("track_running_stats=True, or GroupNorm or LayerNorm"),
    faulty=normed(tracks=False),
    healthy=normed(tracks=True),
)
