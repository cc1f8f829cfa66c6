import cProfile
import pstats
import time
from pathlib import Path
from typing import Any

from torch import Tensor

from training_checklist.instruments import BUILT_IN, LightningModule, Small, StepTimes, is_own, shorten
from training_checklist.probe import WARNING, Fix, Hit, Hits, Limits, Place, Probe, Threshold

# The step itself, what makes its batch, and hooks that it may lie in: with a closure, the optimizer takes it.
AROUND_STEP = {"training_step", "forward", "backward", "manual_backward", "optimizer_step", "step", "<lambda>"}
AROUND_STEP |= {"on_before_batch_transfer", "on_after_batch_transfer", "transfer_batch_to_device"}
LOADER = str(Path("torch", "utils", "data", "dataloader.py"))


def detect(times: StepTimes, limits: Limits) -> Hits:
    share, place = slowest_hook(times.calls)
    if share > limits.max_beside:
        yield Hit(
            f"{place.function} takes {share:.0%} of the time between two batches; the training step, "
            f"backward and the optimizer share the rest",
            place,
        )


def slowest_hook(profiler: cProfile.Profile) -> tuple[float, Place]:
    """Return the greatest share of profiled time, without that of loading, that Lightning waits for one own hook."""
    known: dict[Any, Any] = pstats.Stats(profiler).stats if profiler.getstats() else {}
    lightning = str(Path(__import__(LightningModule.__module__.partition(".")[0]).__file__).parent)
    whole = sum(own for _, _, own, _, _ in known.values())
    loads = (name for name in known if name[0].endswith(LOADER) and name[2] == "__next__")
    loading = sum(known[name][3] for name in loads)
    steps = max((calls for (_, _, name), (_, calls, *_) in known.items() if name == "training_step"), default=0)
    hooks = {}
    for function, (_, calls, _, _, callers) in known.items():
        file, _, name = function
        # What is called once an epoch stands against all of its batches, of which few have been timed.
        if file != BUILT_IN and is_own(file) and name not in AROUND_STEP and 2 * calls > steps:
            # The item itself has put something in the place of the module's own last hook, and passes on to it.
            called = (spent for by, (*_, spent) in callers.items() if by[0].startswith(lightning) or by[2] == "pass_on")
            hooks[function] = sum(called)
    if not hooks or whole <= loading:
        return 0.0, Place()
    file, line, name = most = max(hooks, key=hooks.__getitem__)
    return hooks[most] / (whole - loading), Place(file=shorten(file), line=line, function=name)


class Tables(Small):
    """Makes a table after each batch."""

    seconds = 0.06

    def training_step(self, batch: list, batch_idx: int) -> Tensor:
        time.sleep(0.03)
        return super().training_step(batch, batch_idx)

    def on_train_batch_end(self, outputs: Any, batch: list, batch_idx: int) -> None:
        time.sleep(self.seconds)


class AtTheEnd(Tables):
    """Makes one after each epoch."""

    seconds = 0.0

    def on_train_epoch_end(self) -> None:
        time.sleep(0.3)


PROBE = Probe(
    question="Does each hook of the project take less time than the training step?",
    why="figures, tables and checks of all weights after each batch cost more than the training that they look at",
    severity=WARNING,
    fix=Fix("do it every so many steps: if trainer.global_step % trainer.log_every_n_steps == 0"),
    detect=detect,
    thresholds={"max_beside": Threshold(0.5, "share of the time: more than all of the training together")},
    faulty=Tables,
    healthy=type("Short", (Tables,), {"seconds": 0.015}),
    also_healthy=(AtTheEnd,),
)
