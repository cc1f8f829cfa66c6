from difflib import get_close_matches

from training_checklist.instruments import Monitored, TwoEpochs
from training_checklist.probe import CannotJudge, Fix, Hit, Hits, Limits, Place, Probe


def detect(run: TwoEpochs, limits: Limits) -> Hits:
    if not run.monitors:
        raise CannotJudge("no callback monitors a metric")
    for who, metric in (each for each in run.monitors if each[1] not in run.logged):
        near = get_close_matches(metric, run.logged, n=1, cutoff=0)
        advice = f"monitor one of these; the nearest is {near[0]}" if near else "log it with self.log"
        yield Hit(
            f"{who} monitors {metric}, which nobody logs; logged: {', '.join(run.logged) or 'nothing'}",
            Place(note=f"{who}(monitor={metric!r})"),
            fix=Fix(advice),
        )


PROBE = Probe(
    question="Is every metric logged that a callback or an lr_scheduler monitors?",
    why="it stops training with an exception, or never acts",
    detect=detect,
    fix=Fix("log it, or monitor another one"),
    faulty=type("Misspelt", (Monitored,), {"monitor": "val/lass"}),
    healthy=Monitored,
)
