from training_checklist.instruments import Monitored, TwoEpochs
from training_checklist.probe import WARNING, CannotJudge, Fix, Hit, Hits, Limits, Place, Probe


def detect(run: TwoEpochs, limits: Limits) -> Hits:
    known = [(who, metric) for who, metric in run.monitors if metric in run.logged]
    if not known or not run.validated:
        raise CannotJudge("no callback monitors a metric that is logged, or validation logs nothing")
    for who, metric in known:
        if metric not in run.validated:
            yield Hit(
                f"{who} monitors {metric}, which training logs; validation logs {', '.join(run.validated[:4])}",
                Place(note=f"{who}(monitor={metric!r})"),
            )


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
