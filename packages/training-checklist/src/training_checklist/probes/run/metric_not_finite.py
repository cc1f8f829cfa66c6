import math
import re

from torch import Tensor
from torchmetrics import MaxMetric, MinMetric

from training_checklist.instruments import Small, Stages
from training_checklist.probe import CannotJudge, Fix, Hit, Hits, Limits, Place, Probe

SPREADS = {"std", "stdev", "stderr", "sem", "var", "variance", "deviation"}  # among batches, of which there is one


def detect(stages: Stages, limits: Limits) -> Hits:
    undefined = []
    for name, value in stages.metrics.items():
        whole = name.removesuffix("_step").removesuffix("_epoch")  # what Lightning makes two more of
        told = whole != name and not math.isfinite(stages.metrics.get(whole, 0.0))
        is_spread = not SPREADS.isdisjoint(re.findall("[a-z]+", name.lower()))
        if (stages.alike or is_spread) and math.isnan(value) and "loss" not in name:
            undefined.append(name)
        elif not math.isfinite(value) and not told:
            what, place = f"the metric {name} is {value} after one batch", Place(source=f"self.log({name!r}, ...)")
            path = never_updated(stages, value)
            if path:
                yield Hit(f"{what}: {path} was never updated", place, fix=Fix(f"self.{path}(...) before its compute()"))
            else:
                yield Hit(what, place)
    if undefined:
        raise CannotJudge(
            f"{', '.join(undefined)}: the one batch has a single label, or is the only one, of which some need two"
        )


def never_updated(stages: Stages, value: float) -> str:
    """Return the path of a metric of the lowest or highest value that still is what it begins with, or ""."""
    for path, part in stages.pl_module.named_modules():
        if isinstance(part, (MaxMetric, MinMetric)) and not part._update_count and value in part._defaults.values():
            return path
    return ""


class Precision(Small):
    least = 0  # of the class's predictions that it is divided by

    def training_step(self, batch: list, batch_idx: int) -> Tensor:
        chosen, wanted = self(batch[0]).argmax(1) == 4, batch[1] == 4
        self.log("train/precision", (chosen & wanted).sum() / chosen.sum().clamp(min=self.least))
        return super().training_step(batch, batch_idx)


PROBE = Probe(
    question="Is every logged metric a finite number?",
    why="checkpoints and early stopping compare by metrics, and NaN is never better than anything",
    fix=Fix(
        "look at what it divides by, and for one metric object in two stages: each resets it", items=("limit_batches",)
    ),
    symptom=True,  # of NaN in the network or the loss, where there is such a finding
    detect=detect,
    faulty=Precision,
    healthy=type("Guarded", (Precision,), {"least": 1}),
)
