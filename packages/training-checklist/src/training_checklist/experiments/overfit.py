"""One batch, again and again: whatever can learn at all can learn that by heart."""

import time
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader

from training_checklist.engines.around_step import around_step
from training_checklist.engines.batches import batch_size
from training_checklist.engines.criteria import Criteria
from training_checklist.engines.dropouts import WithoutDropout, as_copy
from training_checklist.engines.graph import leaf_tensors, walk
from training_checklist.engines.instead import put
from training_checklist.engines.lazy import has_lazy
from training_checklist.engines.own_code import pass_on
from training_checklist.engines.rehearsal import usual_rates
from training_checklist.engines.replay import as_loaded, ignore, reported_loss
from training_checklist.engines.tracer import Tracer
from training_checklist.engines.trial import DRAWN, Trial, norm_of_gradients
from training_checklist.experiments.experiment import Experiment, NoWorkers, stop
from training_checklist.lab.one_batch import OneBatch
from training_checklist.lab.one_batch_trials import trials
from training_checklist.lab.shared import known
from training_checklist.lightning import (
    Callback,
    Checkpoint,
    EarlyStopping,
    LightningModule,
    ProgressBar,
    Trainer,
    combined,
)

REPORT_EVERY = 100  # steps
NEVER = 2**62  # steps of a schedule's frequency
DROPOUTS = (nn.Dropout, nn.Dropout1d, nn.Dropout2d, nn.Dropout3d, nn.AlphaDropout, nn.FeatureAlphaDropout)


class Repeated(DataLoader):
    """One batch, again and again, in the place of a loader whose dataset and samplers are still there to be asked."""

    def __init__(self, loader: DataLoader | None, batch: Any, steps: int) -> None:
        super().__init__([batch] * steps, batch_size=None)
        self.batch, self.steps = batch, steps
        if loader is not None:
            kept = ("dataset", "sampler", "batch_sampler", "batch_size", "collate_fn")
            vars(self).update({name: getattr(loader, name) for name in kept})

    def __iter__(self) -> Iterator[Any]:
        return (as_loaded(self.batch) for _ in range(self.steps))

    def __len__(self) -> int:
        return self.steps


class Overfit(Experiment):
    """Trains on one batch, which is fetched once and repeated within one epoch.

    Neither shuffling nor augmentation in the dataset plays a part then; `Trainer(overfit_batches=1)` leaves them on.
    Schedules are held at their highest rate. Where the batch is not memorised, copies are trained from the same weights
    with one thing changed, until one of them does better.

    Args:
        limits: those of `OneBatch`.
    """

    item = "overfit"
    shapes_run = True
    ends_with_fit = True
    begins_anew = True
    drops: tuple[type[Callback], ...] = (EarlyStopping, Checkpoint, ProgressBar)

    def __init__(self, topics: Sequence[str], **limits: Any) -> None:
        super().__init__(topics)
        self.batch = OneBatch(**limits)
        self.criteria, self.without_dropout, self.first_step = Criteria(), WithoutDropout(), 0
        self.trained: list[Tensor] = []
        self.weights: Tensor | None = None

    def setup(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:
        super().setup(trainer, pl_module, stage)
        if stage == "fit":
            own = pl_module.on_fit_start

            def on_fit_start() -> None:
                put_back()
                pass_on(own)
                self._repeat(trainer)

            # Till then a module may make its datasets, in setup, or what its DataModule makes loaders by.
            put_back = put(pl_module, "on_fit_start", on_fit_start)

    def _repeat(self, trainer: Trainer) -> None:
        """Put one batch in the place of the training loader."""
        source = trainer.fit_loop._data_source  # knows the loaders wherever they come from
        with NoWorkers():
            loader = combined(pass_on(source.dataloader))
            batch, _, _ = pass_on(next, pass_on(iter, loader))
        steps = self.batch.max_steps * trainer.accumulate_grad_batches
        # Hooks may ask the loader for its dataset or sampler.
        kept = loader.flattened[0] if len(loader.flattened) == 1 else None
        source.instance = Repeated(kept if isinstance(kept, DataLoader) else None, batch, steps)
        trainer.limit_train_batches = 1.0  # of these, whatever another item of the same run has set
        trainer.overfit_batches = 0.0  # which would have another sampler, and of the project's is no part of this
        trainer.fit_loop._combined_loader = None  # made by then where configure_optimizers asks for the number of steps

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        if len(trainer.optimizers) != 1:
            several = "several optimizers may work against one another: no loss needs to fall"
            self._give_up(trainer, several if trainer.optimizers else "there is no optimizer")
            return
        off = ["shuffling", "augmentation in the dataset"]
        dropouts = [name for name, module in pl_module.named_modules() if isinstance(module, DROPOUTS) and module.p]
        for name in dropouts:
            dropout = pl_module.get_submodule(name).eval()
            self.watching.callback(dropout.register_forward_hook(as_copy).remove)
        off += [f"dropout in {', '.join(dropouts)}"] if dropouts else []
        if trainer.lr_scheduler_configs:
            rates = usual_rates(trainer)[id(trainer.optimizers[0])]
            for group, rate in zip(trainer.optimizers[0].param_groups, rates, strict=True):
                group["lr"] = rate
            for config in trainer.lr_scheduler_configs:
                config.frequency = NEVER
                if not pl_module.automatic_optimization:  # the step steps it, and may do so as often as it trains alone
                    self.watching.callback(put(config.scheduler, "step", ignore))
            off += [f"learning rate schedule (held at {max(rates):.3g})"]
        self.facts["turned_off"] = off
        self.first_step, self.batch.deadline = trainer.global_step, time.monotonic() + self.batch.seconds
        try:
            self.batch.origin = Trial(trainer, pl_module, trainer.optimizers[0])
        except Exception as error:  # of the project's own attributes
            self.batch.uncopied = f"the network cannot be copied: {type(error).__name__}: {error}"
        self.watching.enter_context(around_step(pl_module, Tracer(pl_module, self.criteria, self.without_dropout)))

    def on_train_batch_start(self, trainer: Trainer, pl_module: LightningModule, batch: Any, batch_idx: int) -> None:
        self.criteria.calls.clear()
        self.batch.batch = as_loaded(batch)
        if batch_idx < trainer.accumulate_grad_batches:
            # The same ones afterwards: a step may freeze some, or train others.
            self.trained = (
                [] if has_lazy(pl_module) else [each for each in pl_module.parameters() if each.requires_grad]
            )
            self.weights = flat(self.trained)

    def on_before_backward(self, trainer: Trainer, pl_module: LightningModule, loss: Tensor) -> None:
        call = self.criteria.classification
        if not self.batch.losses and call is not None and call.result is not None:
            leaves_of_loss = leaf_tensors([loss])
            is_learnt_from = any(id(weight) in leaves_of_loss for weight in pl_module.parameters())
            self.batch.is_measured = is_learnt_from and call.result.grad_fn not in set(walk([loss.grad_fn]))
        self.criteria.leave_out(loss)

    def on_after_backward(self, trainer: Trainer, pl_module: LightningModule) -> None:
        if not self.batch.losses:
            self.batch.grad_norm = norm_of_gradients(pl_module)

    def on_train_batch_end(
        self, trainer: Trainer, pl_module: LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        loss, one = reported_loss(outputs, trainer), self.batch
        if loss is None:
            self._give_up(trainer, "training_step returns no loss, so that there is nothing to judge by")
            return
        call = one.classification(self.criteria)
        labelled = call is not None and call.target.ndim == 1 and len(call.target) == batch_size(batch)
        if not one.losses:
            self.facts["turned_off"] += [f"dropout in {place}" for place in self.without_dropout.places]
            one.look_at_criterion(call if labelled else None)
            self.ask(self.probes, one)
        one.accuracy = call.accuracy if labelled else one.accuracy
        # A resumed run has other steps behind it.
        steps = trainer.global_step - self.first_step
        one.record(loss, self.criteria, steps)
        if self.weights is not None and steps == 1:
            one.update, self.weights = float((flat(self.trained) - self.weights).norm() / self.weights.norm()), None
        if batch_idx % REPORT_EVERY == 0:
            print(f"  overfit: step {steps}, {one.standing}", flush=True)
        if one.is_over or time.monotonic() > one.deadline:
            stop(trainer)

    def on_train_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self.at_the_end = True
        self.watching.close()
        batch = self.batch
        if self.skipped or not batch.losses:
            return
        batch.share = None
        if batch.goal is None:
            shares = batch.shares[-batch.settled :]
            trained = Trial(trainer, pl_module, trainer.optimizers[0]) if batch.origin is not None else None
            batch.share = sum(shares) / len(shares) if shares else batch.share_by_hand(trained)
            self.facts["share_of_exchanged"] = batch.share
        self.facts |= {"first_loss": batch.losses[0], "last_loss": batch.losses[-1], "accuracy": batch.accuracy}
        self.facts |= {"steps": batch.steps, "update_ratio": batch.update}
        off = ", ".join(self.facts["turned_off"])
        self.seen = f"{batch.standing} after {batch.steps} steps on one batch; switched off: {off}"
        if not batch.memorised and time.monotonic() > batch.deadline:
            self.skip(f"{batch.standing} after {batch.steps} steps in {batch.seconds:g} s, which {batch.course}")
            return
        if not (batch.is_over or batch.memorised) and batch.steps < batch.max_steps:
            self.skip(f"{batch.standing} after {batch.steps} steps, with which the project's own training has ended")
            return
        undecided = batch.goal is None and not batch.memorised and not batch.is_on_its_way
        if undecided and batch.origin is not None and batch.origin.draws_its_answers(batch.batch):
            self.skip(f"{batch.standing}: {DRAWN}")
            return
        self.ask(self.probes, batch, pl_module=pl_module, trainer=trainer)
        self.seen += batch.distinct
        self.facts["trials"] = {each.change: each.loss for each in (known(batch, trials) or ([], ""))[0]}

    def _give_up(self, trainer: Trainer, reason: str) -> None:
        self.skip(reason)
        stop(trainer)


@torch.no_grad()
def flat(weights: list[Tensor]) -> Tensor | None:
    return torch.cat([weight.detach().flatten().float() for weight in weights]) if weights else None
