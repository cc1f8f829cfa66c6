from training_config.walk import value_of

from training_checklist.direction import better
from training_checklist.instruments import Job, JobConfig, callbacks, monitor_of
from training_checklist.lightning import EarlyStopping
from training_checklist.probe import Fix, Hit, Hits, Limits, Probe


def detect(config: JobConfig, limits: Limits) -> Hits:
    for call in callbacks(config):
        monitor, default, is_given = monitor_of(call), call.parameters.get("mode"), "mode" in call.node
        mode = value_of(call.node, "mode") if is_given else None
        mode = mode if mode is not None or default is None else default.default
        best = better(monitor)
        if best is not None and mode in ("min", "max") and mode != best:
            direction, mark = "better" if best == "max" else "worse", "" if is_given else "+"
            stops = issubclass(call.found, EarlyStopping)
            yield Hit(
                f"{call.key}.mode is {mode}, but more of {monitor} is {direction}",
                config.place(f"{call.key}.{'mode' if is_given else 'monitor'}"),
                "it takes every step forward for none, and stops while the metric gets better" if stops else None,
                Fix(overrides=(f"{mark}{call.key}.mode={best}",)),
            )


WATCHED = "+callbacks.checkpoint.monitor=train/loss"
PROBE = Probe(
    question="Is the mode of ModelCheckpoint and EarlyStopping right for their metric (min for a loss)?",
    why="it takes the worst epoch for the best",
    fix=Fix("reverse the mode"),
    detect=detect,
    faulty=Job((WATCHED, "+callbacks.checkpoint.mode=max")),
    healthy=Job((WATCHED, "+callbacks.checkpoint.mode=min")),
)
