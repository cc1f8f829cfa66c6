from collections.abc import Iterator
from difflib import get_close_matches
from typing import Any

from training_checklist.evidence.learning import Monitor
from training_checklist.finding import FAILED, Fix, Place
from training_checklist.rule import Hit, Rule


def judge(monitor: Monitor, limits: Any) -> Iterator[Hit]:
    if monitor.metric in monitor.logged:
        return
    near = get_close_matches(monitor.metric, monitor.logged, n=1, cutoff=0)
    advice = f"monitor one of these; the nearest is {near[0]}" if near else "log it with self.log"
    yield Hit(
        f"{monitor.who} monitors {monitor.metric}, which nobody logs; logged: {', '.join(monitor.logged) or 'nothing'}",
        Place(note=f"{monitor.who}(monitor={monitor.metric!r})"),
        fix=Fix(advice),
    )


RULE = Rule(
    id="learning/monitor-not-logged",
    item="learning",
    question="Is every metric logged that a callback or an lr_scheduler monitors?",
    why="it stops training with an exception, or never acts",
    severity=FAILED,
    evidence=Monitor,
    judge=judge,
    fix=Fix("log it, or monitor another one"),
    faulty=lambda: Monitor("EarlyStopping", "val/lass", ["train/loss", "val/loss"]),
    healthy=lambda: Monitor("EarlyStopping", "val/loss", ["train/loss", "val/loss"]),
)
