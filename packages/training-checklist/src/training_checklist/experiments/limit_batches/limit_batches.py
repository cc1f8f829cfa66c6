"""Five batches to train on, two to validate and to test with: are the data what they claim to be?"""

import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn.parameter import is_lazy

from training_checklist.engines.around_step import around_step
from training_checklist.engines.compared import compared_leaves
from training_checklist.engines.replay import in_own_containers, reported_loss
from training_checklist.engines.splits import Split, splits
from training_checklist.engines.tracer import Tracer
from training_checklist.experiments.experiment import RAISES, Experiment
from training_checklist.experiments.watch.look import sample
from training_checklist.finding import Finding, Place
from training_checklist.lab.data import OVER, RAISED, UNREAD, Data, order_of, tested
from training_checklist.lab.input_scale import average, input_scale
from training_checklist.lightning import LightningModule, Trainer, makes_one_batch
from training_checklist.probe import CannotJudge, Probe, is_of_each


@dataclass(frozen=True)
class Fitted:
    """What a fit has left.

    Args:
        module: class of what it has trained.
        weights: some entries of each parameter that it has changed, by name.
        sets: of training, behind them.
    """

    module: type[LightningModule]
    weights: dict[str, Tensor]
    sets: list[Split]

    def goes_on_in(self, module: LightningModule) -> bool:
        """Whether a module begins with all that was changed."""
        if type(module) is not self.module or not self.weights:
            return False
        begins = weights_of(module)
        return all(name in begins and torch.equal(begins[name], value) for name, value in self.weights.items())


class LimitBatches(Experiment):
    """A few batches of each split as the network gets them, after Lightning's transfer hooks, and further samples.

    Which tensor is the input and which holds the labels is seen where they enter the network and the criterion.

    Args:
        mean: that the config normalises images with, a number or one for each channel; None or text, such as auto:
            what transforms name.
        std: likewise.
        samples: of each split to look at beyond the batches of the run, at most.
        seconds: after which no more samples are loaded.
    """

    item = "limit_batches"
    shapes_run = True
    no_workers = True

    def __init__(
        self,
        mean: float | Sequence[float] | str | None,
        std: float | Sequence[float] | str | None,
        samples: int,
        seconds: float,
        topics: Sequence[str],
    ) -> None:
        super().__init__(topics)
        known = not any(value is None or isinstance(value, str) for value in (mean, std))
        self.claim = (average(mean), average(std)) if known else None
        self.samples, self.seconds = samples, seconds
        self.data: Data | None = None
        self.source: Any = None
        self.arrived: Any = None  # the present batch, as it was before its step
        self.began: dict[str, Tensor] = {}  # weights, when its fit began
        self.fits_so_far: list[Fitted] = []  # of this run

    def follow(self, earlier: "LimitBatches") -> None:
        super().follow(earlier)
        self.fits_so_far = earlier.fits_so_far

    def setup(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:
        super().setup(trainer, pl_module, stage)
        self.source = trainer.fit_loop._data_source

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self._see(trainer, pl_module, splits("train", trainer.train_dataloader))
        self.began = weights_of(pl_module)
        before = [split for each in self.fits_so_far[-1:] if each.goes_on_in(pl_module) for split in each.sets]
        known = [split.dataset for split in self.data.loaders]
        self.data.earlier = [split for split in before if all(split.dataset is not each for each in known)]
        self.ask(self.of(UNREAD), self.data)
        tracer = Tracer(pl_module, self.data.seen.entrances, self.data.seen.criteria, self.data.seen.differences)
        self.watching.enter_context(around_step(pl_module, tracer))

    def on_train_batch_start(self, trainer: Trainer, pl_module: LightningModule, batch: Any, batch_idx: int) -> None:
        self.arrived = in_own_containers(batch)  # a step may take something out of its own
        self.data.seen.begin(batch, batch_idx)

    def on_before_backward(self, trainer: Trainer, pl_module: LightningModule, loss: Tensor) -> None:
        if not self.data.has_roles and loss.requires_grad:
            self.data.seen.differences.before_backward(loss)

    def on_train_batch_end(
        self, trainer: Trainer, pl_module: LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        arrived, self.arrived = self.arrived, None
        self.data.seen.indices()
        if not self.data.has_roles:
            roles = self.data.seen.roles(arrived)
            if pl_module.automatic_optimization and trainer.world_size == 1:
                with suppress(Exception):  # of the project's step, on a batch that the run does not have
                    compared = (path for path, _, _ in compared_leaves(trainer, pl_module, arrived))
                    roles.compared = frozenset(compared)
            together = any(split.path for split in self.data.loaders) and makes_one_batch(trainer)
            self.data.roles = self.data.choose(roles) if together else roles
        self.data.seen.end(arrived, self.data.roles, reported_loss(outputs, trainer))

    def on_validation_batch_start(
        self, trainer: Trainer, pl_module: LightningModule, batch: Any, batch_idx: int, dataloader_idx: int = 0
    ) -> None:
        several = len(splits("val", trainer.val_dataloaders)) > 1
        name = f"val_dataloader[{dataloader_idx}]" if several else "val_dataloader"
        if self.data is not None and self.data.has_roles:
            self.data.seen.see(batch, self.data.roles, Place(loader=name, batch=batch_idx))

    def on_fit_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self.watching.close()
        if self.data is None:  # Lightning trains nothing, and says so in a warning, where a loader is empty
            self._see(trainer, pl_module, splits("train", self.source.dataloader()))
        self.data.until = time.monotonic() + self.seconds
        self.ask(sorted(self.of(OVER), key=lambda probe: probe.symptom), self.data)
        left = weights_of(pl_module).items()
        changed = {name: each for name, each in left if name in self.began and not torch.equal(each, self.began[name])}
        self.fits_so_far.append(Fitted(type(pl_module), changed, [*self.data.earlier, *self.data.loaders]))
        if self.data.has_roles:
            sizes = [f"{each.name.removesuffix('_dataloader')} {size_of(each)}" for each in self.data.splits]
            counted = ", ".join(sizes) or "not counted, as no batch is from torch's DataLoader"
            self.seen = "; ".join([f"samples: {counted}", *self._described()])
        elif not self.findings:
            self.skip("no batch was run")

    def on_test_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Look at data that nobody knew of before: a script may give them to `trainer.test` alone.

        What training or validation reads, too, is tested with on purpose.
        """
        if self.data is None or not self.data.has_roles or tested(self.data)[0]:
            return
        known = {id(split.dataset) for split in self.data.splits}
        given = [split for split in splits("test", trainer.test_dataloaders) if id(split.dataset) not in known]
        self.data.given, self.data.until = given, time.monotonic() + self.seconds
        if given:
            asked = [probe for probe in self.of(OVER) if probe.id not in self.judged or is_of_each(probe.detect)]
            self.ask(asked, self.data)

    def explain(self, error: Exception) -> Finding | None:
        """Return the labels or tokens without a row, or the samples of another size, that an exception is about."""
        known = len(self.findings)
        if self.data is not None:
            self.data.error = error
            self.data.seen.indices()
            self.ask(self.of(RAISED), self.data)
        return self.findings[known] if len(self.findings) > known else None

    def of(self, moment: str) -> list[Probe]:
        """Return the probes that are asked at a moment: when a fit is over those that name none."""
        named = [(probe, {UNREAD, OVER, RAISED} & {*probe.steps} or {OVER}) for probe in self.probes]
        return [probe for probe, moments in named if moment in moments]

    def _see(self, trainer: Trainer, pl_module: LightningModule, loaders: list[Split]) -> None:
        settings = self.samples, self.seconds, self.claim
        self.data = Data(trainer, pl_module, loaders, *settings, self.findings)

    def _described(self) -> list[str]:
        parts = []
        with suppress(CannotJudge):
            scale = input_scale(self.data)
            self.facts["inputs"] = {"mean": scale.mean, "std": scale.std}
            parts.append(f"inputs: mean {scale.mean:.2f}, std {scale.std:.2f}")
        classes = self.data.roles.classes
        parts += [] if classes is None else [f"{classes} classes"]
        with suppress(CannotJudge):
            order = order_of(self.data, self.data.train)
            parts.append(f"training set {'in order' if order.ascending else 'shuffled'} ({order.sampler})")
        raised = [each for each in self.unjudged.values() if each.startswith(RAISES)]
        return [*parts, *(f"not looked at: samples beyond the batches of the run: {each}" for each in raised[:1])]


def size_of(split: Split) -> str:
    return "unknown (no length)" if split.samples is None else str(split.samples)


def weights_of(module: LightningModule) -> dict[str, Tensor]:
    return {name: sample(each).clone() for name, each in module.named_parameters() if not is_lazy(each)}
