from training_config.walk import value_of

from training_checklist.direction import attribute_of, better, better_of_class
from training_checklist.instruments import FILES, Code, Job, JobConfig, callbacks, monitor_of
from training_checklist.lightning import EarlyStopping
from training_checklist.probe import Fix, Hit, Hits, Limits, Probe


def detect(config: JobConfig, limits: Limits) -> Hits:
    for call in callbacks(config):
        monitor, default, is_given = monitor_of(call), call.parameters.get("mode"), "mode" in call.node
        mode = value_of(call.node, "mode") if is_given else None
        mode = mode if mode is not None or default is None else default.default
        best = better_by_code(config.code, monitor)
        if best is not None and mode in ("min", "max") and mode != best:
            direction, mark = "better" if best == "max" else "worse", "" if is_given else "+"
            stops = issubclass(call.found, EarlyStopping)
            yield Hit(
                f"{call.key}.mode is {mode}, but more of {monitor} is {direction}",
                config.place(f"{call.key}.{'mode' if is_given else 'monitor'}"),
                "it takes every step forward for none, and stops while the metric gets better" if stops else None,
                Fix(overrides=(f"{mark}{call.key}.mode={best}",)),
            )


def better_by_code(code: Code, monitor: str) -> str | None:
    """Return "max" or "min" by the class of the metric that is kept under this name, else by the name itself.

    None where that class is the project's own and does not tell: the name may be that of a metric before it.
    """
    made = code.made.get(attribute_of(monitor), "")
    told = better_of_class(made)
    return told if told is not None or made in code.metrics else better(monitor)


# An error takes the place of the accuracy that its attribute is named after.
DISTANCE = """
from torchmetrics import Metric


class PointDistance(Metric):
    def update(self, points):
        pass

    def compute(self):
        pass


class Logging(Small):
    def __init__(self):
        super().__init__()
        self.val_acc = PointDistance()

    def validation_step(self, batch, batch_idx):
        self.log("val/acc", self.val_acc)

"""


WATCHED = "+callbacks.checkpoint.monitor=train/loss"
# More of a negated error is better, and of an accuracy on negative samples; a representation that hides something makes
# an adversary fail.
MEANT = (("val/neg_mean_squared_error", "max"), ("val/neg_acc", "max"), ("val/adversary_acc", "min"))

PROBE = Probe(
    question="Is the mode of ModelCheckpoint and EarlyStopping right for their metric (min for a loss)?",
    why="it takes the worst epoch for the best",
    fix=Fix("reverse the mode"),
    detect=detect,
    faulty=Job((WATCHED, "+callbacks.checkpoint.mode=max")),
    healthy=Job((WATCHED, "+callbacks.checkpoint.mode=min")),
    also_healthy=(
        *(Job((f"+callbacks.checkpoint.monitor={name}", f"+callbacks.checkpoint.mode={mode}")) for name, mode in MEANT),
        Job(
            ("+callbacks.checkpoint.monitor=val/acc", "+callbacks.checkpoint.mode=min"),
            {"train.py": FILES["train.py"].replace("\nclass Logging(Small):\n", DISTANCE)},
        ),
    ),
)
