from typing import Any

from torch.optim.lr_scheduler import ReduceLROnPlateau

from training_checklist.direction import better
from training_checklist.instruments import Schedules, scheduled
from training_checklist.probe import CannotJudge, Fix, Hit, Hits, Limits, Place, Probe


def detect(schedules: Schedules, limits: Limits) -> Hits:
    if schedules.untold:
        raise CannotJudge(schedules.untold)
    for config in schedules.trainer.lr_scheduler_configs:
        best, mode = better(config.monitor or ""), getattr(config.scheduler, "mode", None)
        if config.reduce_on_plateau and None not in (best, mode) and mode != best:
            yield Hit(
                f"ReduceLROnPlateau has mode={mode}, but more of {config.monitor} is "
                f"{'better' if best == 'max' else 'worse'}",
                Place(note=f"ReduceLROnPlateau(mode={mode!r}) on {config.monitor}"),
                fix=Fix(f'mode="{best}" where it is made'),
            )


def waiting(mode: str) -> Any:
    return scheduled(lambda optimizer: ReduceLROnPlateau(optimizer, mode), "epoch", monitor="loss", strict=False)


PROBE = Probe(
    question="Is the mode of ReduceLROnPlateau right for its metric (min for a loss)?",
    why="it lowers the learning rate for as long as training improves",
    fix=Fix("the other mode where it is made"),
    detect=detect,
    faulty=waiting("max"),
    healthy=waiting("min"),
)
