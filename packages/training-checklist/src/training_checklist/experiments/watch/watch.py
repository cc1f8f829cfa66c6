"""A whole training, as long as it is: how far steps go, gradients, units, outputs, speed and memory."""

import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Any, ClassVar

import torch

from training_checklist import probes
from training_checklist.engines.sizes import in_bytes
from training_checklist.experiments.experiment import Experiment
from training_checklist.experiments.watch.figure import draw
from training_checklist.experiments.watch.look import Look, Looked
from training_checklist.experiments.watch.pace import Pace
from training_checklist.experiments.watch.series import Point, points, write_table
from training_checklist.experiments.watch.timeline import Timeline
from training_checklist.lab.along_depth import AlongDepth
from training_checklist.lab.whole_training import LEAST, WholeTraining, ends
from training_checklist.lightning import Callback, LightningModule, Trainer

MOST = 256  # looks that are kept; of twice as many every second one goes


class Watch(Experiment):
    """Looks at one step in so many, and at the clock in each; the run stays what it is.

    Args:
        share: of the time of all steps that looks may take.
    """

    item = "watch"
    is_whole = True
    drops: ClassVar[tuple[type[Callback], ...]] = ()
    eager = False

    def __init__(self, topics: Sequence[str], share: float) -> None:
        super().__init__(topics)
        self.share = share
        self.pace: Pace | None = None
        self.look: Look | None = None
        self.looked: list[Looked] = []

    def on_load_checkpoint(self, trainer: Trainer, pl_module: LightningModule, checkpoint: dict[str, Any]) -> None:
        """A run that is resumed ends where it would have ended."""

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self.pace, self.timeline = Pace(self.share), Timeline(pl_module.device)
        self.looked, self.known = [], {}
        self.optimizers = [type(optimizer).__name__ for optimizer in trainer.optimizers]
        self.queues = pl_module.device.type != "cpu"  # whether a step goes on when its last hook has run
        # Whatever else the machine does costs this process no time of its own.
        self.clock = time.perf_counter if self.queues else time.process_time

    def on_train_batch_start(self, trainer: Trainer, pl_module: LightningModule, batch: Any, batch_idx: int) -> None:
        if self.pace is None:
            return
        period = self.timeline.begin_step(trainer.global_step)
        if self.queues and period is not None:
            self.pace.add_step(period)
        is_due = self.pace.is_due and (batch_idx + 1) % trainer.accumulate_grad_batches == 0
        if is_due:
            self._wait()
        self.began = self.clock()
        if is_due:
            self.look = Look(pl_module, trainer.optimizers, self.known, self._give_up)

    def on_train_batch_end(
        self, trainer: Trainer, pl_module: LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        if self.pace is None:
            return
        if self.look is None:
            if not self.queues:
                self.pace.add_step(self.clock() - self.began)
            return
        self.looked.append(self.look.finish(trainer.global_step, trainer.current_epoch))
        self.look = None
        if len(self.looked) == 2 * MOST:
            del self.looked[::2]
        self._wait()
        self.pace.add_look(self.clock() - self.began)
        self.timeline.interrupt()

    def on_train_epoch_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self._interrupt()

    def on_validation_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self._interrupt()

    def on_exception(self, trainer: Trainer, pl_module: LightningModule, exception: BaseException) -> None:
        super().on_exception(trainer, pl_module, exception)
        self._leave()

    def on_train_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self._leave()

    def conclude(self, folder: Path) -> None:
        if self.pace is None or not self.pace.steps:
            return
        timeline = self.timeline
        self.ask(self.probes, WholeTraining(self.looked, timeline.blocks, self.optimizers, timeline.device))
        if len(self.optimizers) == 1 and len(self.looked) >= 3 * LEAST:  # of several losses, none has one depth
            self.ask([probes.load("gradients/uneven-along-depth")], AlongDepth(last_gradients(self.looked)))
        series = points(self.looked, self.timeline.blocks, self.optimizers)
        self._tell(series)
        name = "watch" if self.rank == 0 else f"watch_rank{self.rank}"
        (folder / "debug").mkdir(exist_ok=True)
        write_table(folder / "debug" / f"{name}.csv", series)
        if self.rank == 0:
            self.facts["figure"] = draw(folder / "debug" / name, series)

    def _interrupt(self) -> None:
        if self.pace is not None:
            self.timeline.interrupt()

    def _leave(self) -> None:
        """Look no more; what was seen stays."""
        if self.look is not None:
            self.look.stack.close()
            self.look = None

    def _give_up(self, error: Exception) -> None:
        """Say what of this package has failed; a training of days goes on without being looked at."""
        self.fail_itself(error, "watch, while it looked at a step")

    def _wait(self) -> None:
        if self.queues:
            torch.accelerator.synchronize()

    def _tell(self, series: list[Point]) -> None:
        blocks, spent = self.timeline.blocks, self.pace.spent
        cost = spent / (self.pace.elapsed + spent) if self.pace.elapsed else 0.0
        self.facts |= {"looks": len(self.pace.costs), "steps": self.pace.steps, "share": cost, "spent_s": spent}
        said = [f"{len(self.pace.costs)} looks at {self.pace.steps} steps, {cost:.1%} of their time"]
        ratios = [point.value for point in series if point.series == "update_ratio"]
        said += [f"weights change by {ratios[0]:.1e} -> {ratios[-1]:.1e} a step"] if ratios else []
        if blocks:
            said.append(f"{1000 * median(block.wall for block in blocks):.1f} ms a step")
            resident = [block.resident for block in blocks if block.resident is not None]
            said += [f"memory {in_bytes(resident[0])} -> {in_bytes(resident[-1])}"] if resident else []
        self.seen = "; ".join(said)


def last_gradients(looked: list[Looked]) -> dict[str, float]:
    """Return the median gradient at each module's output in the last third of the looks."""
    _, last = ends(looked)
    names = [name for name in last[0].gradients if all(name in look.gradients for look in last)]
    return {name: median(look.gradients[name] for look in last) for name in names}
