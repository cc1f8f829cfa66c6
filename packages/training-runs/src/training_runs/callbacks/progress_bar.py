"""A progress bar that fits a terminal of 80 columns: how far the epoch is, and below it what is logged for the bar."""

import math
import time
from typing import Any

from pytorch_lightning import LightningModule, Trainer
from pytorch_lightning.callbacks import ProgressBar as LightningProgressBar
from rich.console import Console, RenderableType
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    Task,
    TaskID,
    TextColumn,
    TimeRemainingColumn,
)
from rich.text import Text

from training_runs.callbacks.step_monitor import is_logged

# ANSI's own magenta and the terminal's own text: readable on black and on white.
BAR, TEXT = "magenta", "default"


class ProgressBar(LightningProgressBar):
    """Shows epochs from 1, the loss of training from the first batch on, and whatever is logged with `prog_bar=True`.

    Where the output is no terminal nothing is drawn; `EpochLines` says there how it goes. What is shown is fetched from
    the device at the first batch of an epoch and at the steps that are logged, so that no other step waits for it.

    Args:
        refresh_rate: times a second that it is drawn, at most; 0 draws nothing.
    """

    def __init__(self, refresh_rate: float = 5) -> None:
        super().__init__()
        self.refresh_rate, self.enabled = refresh_rate, True
        self.lines: Lines | None = None
        self.metrics: dict[str, float] = {}
        self.drawn = 0.0  # when, by time.perf_counter

    @property
    def is_drawing(self) -> bool:
        return self.lines is not None

    def enable(self) -> None:
        self.enabled = True

    def disable(self) -> None:
        self.enabled = False
        self.stop()

    def print(self, *args: Any, **kwargs: Any) -> None:
        if self.lines is not None:
            self.lines.console.print(*args, **kwargs)
        else:
            print(*args, **kwargs)

    def start(self) -> None:
        console = Console()
        if self.lines is None and self.enabled and self.refresh_rate > 0 and console.is_terminal:
            self.lines = Lines(console)
            self.lines.start()

    def stop(self) -> None:
        if self.lines is not None:
            self.lines.stop()
            self.lines, self.metrics = None, {}

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self.start()

    on_sanity_check_start = on_validation_start = on_test_start = on_predict_start = on_train_start

    def teardown(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:
        self.stop()

    def on_exception(self, trainer: Trainer, pl_module: LightningModule, exception: BaseException) -> None:
        self.stop()

    def on_train_batch_end(
        self, trainer: Trainer, pl_module: LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        if self.lines is None:
            return
        if batch_idx == 0 or not self.metrics or is_logged(trainer, trainer.global_step):
            logged = {name: float(value) for name, value in trainer.progress_bar_metrics.items()}
            self.metrics = training_loss(outputs, trainer.accumulate_grad_batches) | logged
        self.draw(epoch_of(trainer), batch_idx + 1, self.total_train_batches, first=batch_idx == 0)

    def on_validation_batch_end(
        self,
        trainer: Trainer,
        pl_module: LightningModule,
        outputs: Any,
        batch: Any,
        batch_idx: int,
        dataloader_idx: int = 0,
    ) -> None:
        self.has_dataloader_changed(dataloader_idx)
        name = "sanity check" if trainer.sanity_checking else "validation"
        self.draw(name, batch_idx + 1, self.total_val_batches_current_dataloader)

    def on_test_batch_end(
        self,
        trainer: Trainer,
        pl_module: LightningModule,
        outputs: Any,
        batch: Any,
        batch_idx: int,
        dataloader_idx: int = 0,
    ) -> None:
        self.has_dataloader_changed(dataloader_idx)
        self.draw("test", batch_idx + 1, self.total_test_batches_current_dataloader)

    def on_predict_batch_end(
        self,
        trainer: Trainer,
        pl_module: LightningModule,
        outputs: Any,
        batch: Any,
        batch_idx: int,
        dataloader_idx: int = 0,
    ) -> None:
        self.has_dataloader_changed(dataloader_idx)
        self.draw("predict", batch_idx + 1, self.total_predict_batches_current_dataloader)

    def draw(self, name: str, done: int, total: float, first: bool = False) -> None:
        """Show that `done` of `total` batches of `name` are over, unless that was shown a moment ago."""
        now = time.perf_counter()
        if self.lines is None or (now - self.drawn < 1 / self.refresh_rate and done != total and not first):
            return
        self.drawn = now
        self.lines.show(name, done, total if math.isfinite(total) else None, self.metrics)


class Lines(Progress):
    """One line for the loop that runs, and below it one for the metrics, which is folded where it is too long."""

    def __init__(self, console: Console) -> None:
        self.metrics: dict[str, Any] = {}  # before rich's own, which draws at once
        self.loop: TaskID | None = None
        columns = (
            TextColumn("{task.description}", style=TEXT),
            BarColumn(bar_width=None, complete_style=BAR, finished_style=BAR, pulse_style=BAR),
            Done(),
            Rate(),
            Remaining(),
        )
        super().__init__(*columns, console=console, auto_refresh=False, transient=True, expand=True)
        for column in columns:
            column.get_table_column().no_wrap = True

    def show(self, name: str, done: int, total: float | None, metrics: dict[str, Any]) -> None:
        if self.loop is None:
            self.loop = self.add_task(name, total=total)
        elif self.tasks[0].description != name:
            self.reset(self.loop, description=name, total=total)
        self.metrics = metrics
        self.update(self.loop, completed=done, total=total, refresh=True)

    def get_renderables(self) -> Any:
        yield from super().get_renderables()
        if self.metrics:
            yield Text("  ".join(f"{name} {value:.4g}" for name, value in self.metrics.items()), style=TEXT)


class Done(MofNCompleteColumn):
    def render(self, task: Task) -> Text:
        return Text(super().render(task).plain)  # rich's has colours that white or black swallows


class Rate(ProgressColumn):
    def render(self, task: Task) -> RenderableType:
        return Text(" " * 15 if task.speed is None else f"{task.speed:>5.3g} batches/s")


class Remaining(TimeRemainingColumn):
    def render(self, task: Task) -> Text:
        return Text(super().render(task).plain)


def epoch_of(trainer: Trainer) -> str:
    """Return the number of the epoch, the first of which is 1, and of how many."""
    last = trainer.max_epochs
    return f"epoch {trainer.current_epoch + 1}" + (f"/{last}" if last is not None and last > 0 else "")


def training_loss(outputs: Any, accumulated: int) -> dict[str, float]:
    """Return the loss of what a training step came to; Lightning has divided it where gradients are accumulated."""
    loss = outputs.get("loss") if isinstance(outputs, dict) else outputs
    return {} if loss is None else {"train loss": float(loss) * accumulated}
