"""One training batch on its way through the network, module by module, up to the criterion."""

from collections.abc import Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

from rich.console import Console
from torch import Tensor

from training_checklist.engines.compared import first_of
from training_checklist.engines.own_code import shorten
from training_checklist.engines.stages import first_batch, has_stage
from training_checklist.experiments.experiment import Experiment
from training_checklist.experiments.trace.table import aligned, markdown
from training_checklist.finding import Finding
from training_checklist.lab.shapes import by
from training_checklist.lab.shared import of_the_project
from training_checklist.lab.step import LEAST, Step
from training_checklist.lightning import LightningModule, Trainer
from training_checklist.probe import CannotJudge


class Trace(Experiment):
    """Watches the first training batch, and the first one of validation and of test, and has probes look at them.

    Hooks are on the modules while a step runs, and gone afterwards.
    """

    item = "trace"

    def __init__(self, topics: Sequence[str]) -> None:
        super().__init__(topics)
        self.training: Step | None = None
        self.validation: Step | None = None
        self.lines: set[tuple[str, str, int]] = set()  # with a finding of an earlier step, by its rule
        self.ended = False

    def on_train_batch_start(self, trainer: Trainer, pl_module: LightningModule, batch: Any, batch_idx: int) -> None:
        if self.training is None:
            self.training = self._step("training_step", trainer, pl_module, batch)
            self.training.watch()

    def on_before_backward(self, trainer: Trainer, pl_module: LightningModule, loss: Tensor) -> None:
        if self.training is not None and not self.ended and loss.requires_grad:
            self.training.before_backward(loss)

    def on_after_backward(self, trainer: Trainer, pl_module: LightningModule) -> None:
        if self.training is not None and not self.ended:
            self.training.look_at_gradients()

    def on_train_batch_end(
        self, trainer: Trainer, pl_module: LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        if self.training is None or self.ended:
            return
        self.ended = True
        self.training.close()
        self._measure(self.training)
        self._ask(self.training)

    def on_validation_batch_start(
        self, trainer: Trainer, pl_module: LightningModule, batch: Any, batch_idx: int, dataloader_idx: int = 0
    ) -> None:
        if self.validation is None and not trainer.sanity_checking:
            self.validation = self._step("validation_step", trainer, pl_module, batch)
            few = self._as_in_training(batch)
            if few is not batch:  # what all modules return is kept, and probes train on it, which takes memory
                with suppress(CannotJudge):
                    self._ask(self.validation.again(few, training=False))
                    return
            self.validation.watch()

    def on_validation_batch_end(
        self, trainer: Trainer, pl_module: LightningModule, outputs: Any, batch: Any, *_: Any
    ) -> None:
        if self.validation is not None and self.validation.is_open:
            self.validation.close()
            self._ask(self.validation)

    def on_fit_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        if trainer.world_size > 1 or not has_stage("test", pl_module, trainer.datamodule):
            return
        try:
            with ExitStack() as stack:
                with of_the_project("test_dataloader"):
                    raw = stack.enter_context(first_batch(trainer, pl_module, "test"))
                    batch = self._as_in_training(trainer.strategy.batch_to_device(raw))
                step = self._step("test_step", trainer, pl_module, batch).again(batch, training=False)
        except CannotJudge:  # testing itself will say so
            return
        except Exception as error:
            self.fail_itself(error, "test_step")
            return
        self._ask(step)

    def on_exception(self, trainer: Trainer, pl_module: LightningModule, exception: BaseException) -> None:
        for step in (self.training, self.validation):
            if step is not None:
                step.close()
        if self.training is not None and not self.ended:
            self._measure(self.training)
            self._tell()

    def explain(self, error: Exception) -> Finding | None:
        """Return what the criterion was given, where it is the criterion that raised."""
        step = self.training
        call = step.criteria.calls[-1] if step is not None and step.criteria.calls else None
        if call is None or call.result is not None or call.input.is_cuda:  # a GPU that has raised answers nothing more
            return None
        step.raised, known = True, len(self.findings)
        self._ask(step)
        return self.findings[-1] if len(self.findings) > known else None

    def conclude(self, folder: Path) -> None:
        if self.training is None:
            self.skip("no training batch was run")
        elif self.rank == 0:
            self._tell()
            (folder / "debug").mkdir(exist_ok=True)
            (folder / "debug" / "trace.md").write_text(markdown(self.training.modules.rows), encoding="utf-8")
            self.seen += f"; see {shorten(folder / 'debug' / 'trace.md')}"

    def add(self, finding: Finding) -> None:
        if line_of(finding) not in self.lines:
            super().add(finding)

    def _step(self, name: str, trainer: Trainer, pl_module: LightningModule, batch: Any) -> Step:
        asked = [probe.listener for probe in self.probes if name in probe.steps and probe.listener is not None]
        return Step(name, pl_module, trainer, batch, asked)

    def _as_in_training(self, batch: Any) -> Any:
        """Return the first samples of a batch, where it has more than one of training."""
        size = self.training.size if self.training is not None else None
        return batch if size is None or size < LEAST else first_of(batch, size)

    def _ask(self, step: Step) -> None:
        self.ask([probe for probe in self.probes if step.name in probe.steps], step)
        self.lines = {line_of(finding) for finding in self.findings if finding.place.line}
        step.forget()

    def _measure(self, step: Step) -> None:
        rows = step.modules.rows
        self.facts["modules"] = [row.facts for row in rows]
        used = {f"{c.name} of {by(tuple(c.input.shape))} against {by(tuple(c.target.shape))}" for c in step.learned}
        self.seen = f"{len({row.path for row in rows})} modules called"
        self.seen += f"; {', '.join(sorted(used))}" if used else ""

    def _tell(self) -> None:
        console = Console()
        console.print()
        for line in aligned(self.training.modules.rows):
            console.print(line, soft_wrap=True, highlight=False, markup=False)


def line_of(finding: Finding) -> tuple[str, str, int]:
    return finding.rule, finding.place.file, finding.place.line
