import re
import sys
from difflib import get_close_matches

from training_checklist.instruments import (
    COUNTED,
    Job,
    JobConfig,
    LightningModule,
    callbacks,
    is_installed,
    monitor_of,
    source,
    targets,
    turned,
)
from training_checklist.probe import CannotJudge, Fix, Hit, Hits, Limits, Probe


def detect(config: JobConfig, limits: Limits) -> Hits:
    code = source(config)
    if code.logs_more or not code.logged:
        raise CannotJudge("what the code logs is made while it runs")
    for each in targets(config):
        is_module = isinstance(each.found, type) and issubclass(each.found, LightningModule)
        if is_module and is_installed(getattr(sys.modules.get(each.found.__module__), "__file__", None) or ""):
            raise CannotJudge(f"what {each.named} logs is in somebody else's code")
    logged = sorted(pattern.replace("\\", "") for pattern in code.logged)
    names = rf"({'|'.join(code.logged)})(_step|_epoch)?(/dataloader_idx_\d+)?"
    for call in callbacks(config):
        monitor, key = monitor_of(call), f"{call.key}.monitor"
        if monitor and monitor not in COUNTED and not re.fullmatch(names, monitor):
            near = get_close_matches(monitor, logged, n=1) or logged[:1]
            wanted = turned(call.node.get("mode"), near[0])
            fix = Fix(overrides=(f"{key}={near[0]}", *([f"{call.key}.mode={wanted}"] if wanted else [])))
            what = f"{key} is {monitor}, which nothing logs; logged are {', '.join(logged)}"
            yield Hit(what, config.place(key), fix=fix)


def put_in(name: str) -> Job:
    """Return a program that puts a metric among those that callbacks see."""
    line = f"from torch import Tensor; trainer.callback_metrics[{name!r}] = Tensor([1])"
    return Job((f"+callbacks.checkpoint.monitor={name}",), line=line)


PROBE = Probe(
    question="Is the metric that each callback has as `monitor` logged somewhere in the code?",
    why="the run ends when the metric is looked for, which may be after the first epoch",
    fix=Fix("monitor a metric that is logged, or log this one"),
    detect=detect,
    faulty=Job(("+callbacks.checkpoint.monitor=train_loss",)),
    healthy=Job(("+callbacks.checkpoint.monitor=train/loss",)),
    also_healthy=(put_in("val/gap"),),
)
