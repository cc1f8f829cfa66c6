import re

from training_checklist.instruments import Monitored, TwoEpochs
from training_checklist.probe import REMARK, WARNING, CannotJudge, Fix, Hit, Hits, Limits, Place, Probe

STAGES = {"train", "training", "val", "valid", "validation", "step", "epoch"}


def detect(run: TwoEpochs, limits: Limits) -> Hits:
    known = [(who, metric) for who, metric in run.monitors if metric in run.logged]
    if not known or not run.validated:
        raise CannotJudge("no callback monitors a metric that is logged, or validation logs nothing")
    for who, metric in known:
        if metric not in run.validated:
            # Without the same of validation, what that logs may be no aim, as where features are learnt without labels.
            has_counterpart = any(whole(each) == whole(metric) for each in run.validated)
            yield Hit(
                f"{who} monitors {metric}, which training logs; validation logs {', '.join(run.validated[:4])}",
                Place(note=f"{who}(monitor={metric!r})"),
                severity=None if has_counterpart else REMARK,
            )


def whole(metric: str) -> list[str]:
    """Return the words of a metric's name, without the stage."""
    return [word for word in re.findall("[a-z0-9]+", metric.lower()) if word not in STAGES]


PROBE = Probe(
    question="Do ModelCheckpoint and EarlyStopping monitor a metric of validation, and not of training?",
    why="a training metric goes on improving after the network has begun to overfit",
    severity=WARNING,
    detect=detect,
    may_be_wrong="where there is no validation, the training metric is all that can choose",
    fix=Fix("monitor a metric of validation"),
    faulty=type("ByTraining", (Monitored,), {"monitor": "train/loss"}),
    healthy=Monitored,
)
