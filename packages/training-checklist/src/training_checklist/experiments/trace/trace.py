"""One training batch on its way through the network, module by module, up to the criterion."""

from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from torch import Tensor
from torchmetrics import Metric

from training_checklist.engines.around_step import around_step
from training_checklist.engines.batches import batch_size
from training_checklist.engines.compared import compared_leaves, first_of, moved_look
from training_checklist.engines.criteria import Criteria, CriterionCall
from training_checklist.engines.dropouts import DropoutCalls
from training_checklist.engines.own_code import shorten
from training_checklist.engines.places import of_function
from training_checklist.engines.replay import call_step, isolated
from training_checklist.engines.splits import splits
from training_checklist.engines.stages import first_batch, has_stage
from training_checklist.engines.stand_in import stand_in
from training_checklist.engines.tracer import Tracer
from training_checklist.evidence.network import (
    ClassCounts,
    Concatenations,
    CriterionSlope,
    DeadTerms,
    Draws,
    LinearPairsFound,
    LossSlopes,
    ModuleCall,
    PaddingMasks,
    Pairing,
    Pairings,
    Reshapes,
    SampleOutputs,
    SoftmaxCall,
    Softmaxes,
    SquashesFound,
    TargetsBeyond,
    WeightTypes,
    by,
)
from training_checklist.experiments.experiment import Experiment
from training_checklist.experiments.trace.among_others import among_others
from training_checklist.experiments.trace.concatenations import DoubledParts
from training_checklist.experiments.trace.criterion_input import measured
from training_checklist.experiments.trace.dead_terms import DeadTermsOf
from training_checklist.experiments.trace.differences import Differences
from training_checklist.experiments.trace.draws import DrawsOf
from training_checklist.experiments.trace.effects import copies_in, effects
from training_checklist.experiments.trace.forward_calls import ForwardCalls, varies
from training_checklist.experiments.trace.linear_pairs import LinearPairs
from training_checklist.experiments.trace.operations import (
    AttentionAxes,
    Masks,
    OverDimensions,
    Pairs,
    SoftmaxesOverBatch,
)
from training_checklist.experiments.trace.reshapes import ReshapesToTranspose
from training_checklist.experiments.trace.sequences import more_padding, sequences
from training_checklist.experiments.trace.squashes import Squashes
from training_checklist.experiments.trace.table import aligned, markdown
from training_checklist.experiments.trace.targets import compared_tensors, lined_up, place_in_batch
from training_checklist.experiments.trace.term_sizes import term_sizes
from training_checklist.finding import Finding, Place
from training_checklist.lightning import LightningModule, Trainer, isolate_rng

SPREAD = 16  # samples


class Watch:
    """What is seen of one call of a step while `around` is open.

    Args:
        size: of the batch, None where its tensors do not share a first dimension.
    """

    def __init__(self, pl_module: LightningModule, step: str, size: int | None) -> None:
        self.step, self.size = step, size
        self.modules, self.criteria, self.masks = ForwardCalls(pl_module), Criteria(), Masks()
        self.dropouts, self.doubled, self.reshapes = DropoutCalls(), DoubledParts(), ReshapesToTranspose()
        self.terms, self.squashes, self.draws, self.differences = DeadTermsOf(), Squashes(), DrawsOf(), Differences()
        self.softmaxes, self.pairs = SoftmaxesOverBatch(size), Pairs(size)
        self.linear, self.dimensions, self.axes = LinearPairs(), OverDimensions(), AttentionAxes()
        operations = self.softmaxes, self.pairs, self.masks, self.dropouts, self.doubled, self.reshapes, self.terms
        others = [self.linear, self.dimensions, self.axes, self.squashes]
        others += [self.draws, self.differences] if step == "training_step" else []
        tracer = Tracer(pl_module, self.criteria, *operations, *others)
        contexts = (self.modules, tracer) if step == "training_step" else (tracer,)
        self.around = ExitStack()
        self.around.enter_context(around_step(pl_module, *contexts, step=step))

    def close(self) -> None:
        self.around.close()
        self.pairs.inserted.clear()
        self.axes.weights.clear()

    @property
    def learned(self) -> list[CriterionCall]:
        """The calls of criteria that training learns by, and not those that only log."""
        return [call for call in self.criteria.calls if call.result is not None and call.result.requires_grad]


class Trace(Experiment):
    """Watches the first training batch, and the first one of validation and of test.

    Hooks are on the modules while a step runs, and gone afterwards.
    """

    item = "trace"

    def __init__(self) -> None:
        super().__init__()
        self.training: Watch | None = None
        self.batch: Any = None
        self.validation: Watch | None = None
        self.copies: set[str] = set()
        self.reached: dict[str, bool] = {}  # parameter that got a gradient: whether it has anything but zeros
        self.paired: set[tuple[str, int]] = set()  # lines that have been judged
        self.ended = False

    def on_train_batch_start(self, trainer: Trainer, pl_module: LightningModule, batch: Any, batch_idx: int) -> None:
        if self.training is None:
            self.training, self.batch = Watch(pl_module, "training_step", batch_size(batch)), batch
            self.copies = copies_in(pl_module)
            weights = dict(pl_module.named_parameters())
            double = [name for name, weight in weights.items() if weight.dtype == torch.float64]
            self.judge(WeightTypes(double, len(weights), str(trainer.precision)))

    def on_before_backward(self, trainer: Trainer, pl_module: LightningModule, loss: Tensor) -> None:
        if not self.ended and loss.requires_grad and self.training is not None:
            with suppress(RuntimeError):  # a part of the graph may be gone with an earlier backward
                accumulated = trainer.accumulate_grad_batches if pl_module.automatic_optimization else 1
                self.judge(*targets_beyond(loss, self.training.learned))
                given = (measured(call, self.training.dropouts) for call in self.training.differences.below(loss))
                self.judge(*(each for each in given if each is not None))
                self.training.differences.calls.clear()
                found = slopes(loss, self.training.learned, len(trainer.optimizers), accumulated)
                if found.are_flat:
                    with suppress(Exception):  # of the project's step, on a batch that the run does not have
                        found.others = any(moves for _, _, moves in compared_leaves(trainer, pl_module, self.batch))
                self.judge(found)

    def on_after_backward(self, trainer: Trainer, pl_module: LightningModule) -> None:
        if self.ended:
            return
        for name, parameter in pl_module.named_parameters():
            if parameter.grad is not None:
                self.reached[name] = self.reached.get(name, False) or bool(parameter.grad.any())

    def on_train_batch_end(
        self, trainer: Trainer, pl_module: LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        if self.ended or self.training is None:
            return
        self.ended, self.batch, watch = True, None, self.training
        watch.close()
        self._measure(watch)
        self.judge(watch.modules.evidence, PaddingMasks(watch.masks.calls))
        self.judge(LinearPairsFound(watch.linear.evidence))
        self.judge(DeadTerms(list(watch.terms.found.values())), SquashesFound(list(watch.squashes.found.values())))
        self.judge(Draws(watch.draws.found))
        self.judge(Concatenations(list(watch.doubled.found.values())), Reshapes(list(watch.reshapes.found.values())))
        inputs = (measured(call, watch.dropouts) for call in watch.learned)
        self.judge(*(each for each in inputs if each is not None))
        self._judge_operations(watch, trainer, pl_module, batch)
        self._judge_classes(watch, pl_module)
        self.judge(effects(pl_module, trainer, self.reached, watch.modules.zero_start, watch.modules.rows, self.copies))
        self._judge_targets(trainer, pl_module, batch)
        if not watch.modules.zero_start:  # a layer that starts from zero learns to tell samples apart
            self._judge_samples(watch, trainer, pl_module, batch)
        watch.criteria.calls.clear()  # they hold the graph
        watch.dropouts.made.clear()
        watch.linear, watch.draws = LinearPairs(), DrawsOf()

    def on_validation_batch_start(
        self, trainer: Trainer, pl_module: LightningModule, batch: Any, batch_idx: int, dataloader_idx: int = 0
    ) -> None:
        if self.validation is None and not trainer.sanity_checking:
            self.validation = Watch(pl_module, "validation_step", batch_size(batch))

    def on_validation_batch_end(
        self, trainer: Trainer, pl_module: LightningModule, outputs: Any, batch: Any, *_: Any
    ) -> None:
        if self.validation is not None and batch is not None:
            self.validation.close()
            self._judge_operations(self.validation, trainer, pl_module, batch)

    def on_fit_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        if trainer.world_size > 1 or not has_stage("test", pl_module, trainer.datamodule):
            return
        with suppress(Exception):  # testing itself will say so
            batch = trainer.strategy.batch_to_device(first_batch(trainer, pl_module, "test"))
            with isolated(pl_module, training=False), torch.no_grad():
                watch = Watch(pl_module, "test_step", batch_size(batch))
                try:
                    call_step(pl_module, "test_step", batch)
                finally:
                    watch.close()
            self._judge_operations(watch, trainer, pl_module, batch)

    def on_exception(self, trainer: Trainer, pl_module: LightningModule, exception: BaseException) -> None:
        for watch in (self.training, self.validation):
            if watch is not None:
                watch.close()
        if self.training is not None and not self.ended:
            self._measure(self.training)
            self._tell()

    def explain(self, error: Exception) -> Finding | None:
        """Return what the criterion was given, where it is the criterion that raised."""
        call = self.training.criteria.calls[-1] if self.training is not None and self.training.criteria.calls else None
        if call is None or call.result is not None or call.input.is_cuda:  # a GPU that has raised answers nothing more
            return None
        given, known = measured(call, self.training.dropouts), len(self.findings)
        self.judge(*[given] if given is not None else [])
        return self.findings[-1] if len(self.findings) > known else None

    def conclude(self, folder: Path) -> None:
        if self.training is None:
            self.skip("no training batch was run")
        elif self.rank == 0:
            self._tell()
            (folder / "debug").mkdir(exist_ok=True)
            (folder / "debug" / "trace.md").write_text(markdown(self.training.modules.rows), encoding="utf-8")
            self.seen += f"; see {shorten(folder / 'debug' / 'trace.md')}"

    def _measure(self, watch: Watch) -> None:
        rows = watch.modules.rows
        self.facts["modules"] = [vars(row) | {"varies": list(row.varies)} for row in rows]
        used = {f"{c.name} of {by(tuple(c.input.shape))} against {by(tuple(c.target.shape))}" for c in watch.learned}
        self.seen = f"{len({row.path for row in rows})} modules called"
        self.seen += f"; {', '.join(sorted(used))}" if used else ""

    def _tell(self) -> None:
        console = Console()
        console.print()
        for line in aligned(self.training.modules.rows):
            console.print(line, soft_wrap=True, highlight=False, markup=False)

    def _judge_operations(self, watch: Watch, trainer: Trainer, pl_module: LightningModule, batch: Any) -> None:
        """Judge what is done over the samples, after another look at it with a sample less: other things may be as
        many as the samples by chance."""
        open_pairs = (call for call in watch.pairs.calls if not call.meant and call.follows_batch is None)
        found: list[Pairing | SoftmaxCall] = [*watch.softmaxes.calls, *open_pairs]
        if found and watch.size > 2 and trainer.world_size == 1:  # one rank alone must not take part in collectives
            smaller = seen_with_less(watch, trainer, pl_module, batch)
            for call in found if smaller is not None else ():
                call.follows_batch = (call.place.file, call.place.line) in smaller
        # Once for a line that several steps have in common.
        pairs = [call for call in watch.pairs.calls if (call.place.file, call.place.line) not in self.paired]
        self.judge(watch.dimensions.against(watch.criteria.calls))
        if watch is self.training:
            self.judge(watch.axes.evidence)
        watch.dimensions.calls.clear()
        self.paired |= {(call.place.file, call.place.line) for call in pairs}
        self.judge(Softmaxes(watch.softmaxes.calls, watch.size or 0), Pairings(watch.step, pairs))

    def _judge_targets(self, trainer: Trainer, pl_module: LightningModule, batch: Any) -> None:
        """Judge what the loss compares with, on steps that the run does not take."""
        if not pl_module.automatic_optimization or trainer.world_size > 1:
            return
        with suppress(Exception):  # of the project's step, on a batch that the run does not have
            look, step = moved_look(trainer, pl_module), of_function(type(pl_module).training_step)
            self.judge(*compared_tensors(look, step, batch))
            moved = place_in_batch(look, step, batch)
            self.judge(*[moved] if moved is not None else [])
        with suppress(Exception):
            look, step = moved_look(trainer, pl_module), of_function(type(pl_module).training_step)
            with suppress(Exception):
                found = lined_up(look, batch)
                self.judge(*[found] if found is not None else [])
            self.judge(*sequences(look, step, padded(trainer, batch)))
        with suppress(Exception):
            loader = next(split for split in splits("train", trainer.train_dataloader) if split.indexable)
            look = moved_look(trainer, pl_module)
            for compare in (among_others, term_sizes):
                with suppress(Exception):
                    found = compare(look, loader, trainer)
                    self.judge(*[found] if found is not None else [])

    def _judge_classes(self, watch: Watch, pl_module: LightningModule) -> None:
        call = watch.criteria.classification
        counted = {
            path: module.num_classes
            for path, module in pl_module.named_modules()
            if isinstance(module, Metric) and isinstance(getattr(module, "num_classes", None), int)
        }
        if call is not None and counted:
            self.judge(ClassCounts(call.num_classes, counted, call.place))

    def _judge_samples(self, watch: Watch, trainer: Trainer, pl_module: LightningModule, batch: Any) -> None:
        """Judge whether samples differ where they reach a criterion, once more without dropout where inputs do not."""
        self.judge(*outputs(watch.learned, watch.modules.rows, watch.size, bool(varies(batch))))
        blind = any(row.varies[0] is False for row in watch.modules.rows) and varies(batch)
        if not blind or not pl_module.automatic_optimization or trainer.world_size > 1:
            return
        modules, criteria = ForwardCalls(pl_module), Criteria()
        autocast = trainer.precision_plugin.forward_context
        watching = Tracer(pl_module, criteria)
        # Of code that is not meant for that mode.
        with suppress(Exception), isolated(pl_module, training=False), autocast(), modules, watching:
            call_step(pl_module, "training_step", batch)
        done = [call for call in criteria.calls if call.result is not None]
        self.judge(*outputs(done, modules.rows, watch.size, True))


def padded(trainer: Trainer, batch: Any) -> Any:
    """Return a batch of samples from all over the dataset, where those of the run's batch have one length."""
    for split in splits("train", trainer.train_dataloader)[:1]:
        if split.indexable and next(more_padding(batch), None) is None:
            return split.spread(SPREAD, trainer)
    return batch


def slopes(loss: Tensor, calls: list[CriterionCall], optimizers: int, accumulated: int) -> LossSlopes:
    """Return how a loss changes with each criterion that it is made of."""
    single = [call for call in calls if call.result.ndim == 0]
    found: tuple[Tensor | None, ...] = ()
    if single:
        found = torch.autograd.grad(loss, [call.result for call in single], retain_graph=True, allow_unused=True)
    known = [
        CriterionSlope(call.name, float(call.result.detach()), float(slope), call.place)
        for call, slope in zip(single, found, strict=True)
        if slope is not None
    ]
    return LossSlopes(float(loss.detach()), known, optimizers, accumulated)


def targets_beyond(loss: Tensor, calls: list[CriterionCall]) -> Iterator[TargetsBeyond]:
    """Yield of each cross-entropy of yes and no how many targets that are neither, nor between them, a loss counts."""
    for call in calls:
        target = call.target.detach()
        if call.name.startswith("binary_cross_entropy") and call.input.requires_grad:
            [slope] = torch.autograd.grad(loss, [call.input], retain_graph=True, allow_unused=True)
            counted = torch.zeros_like(target, dtype=torch.bool) if slope is None else slope != 0
            beyond = ((target < 0) | (target > 1)) & counted
            low, high = (float(each) for each in target.aminmax())
            yield TargetsBeyond(int(beyond.sum()), target.numel(), low, high, call.place)


def outputs(calls: list[CriterionCall], rows: list[ModuleCall], size: int | None, differ: bool) -> list[SampleOutputs]:
    """Return whether samples differ in what criteria are given, and where they cease to."""
    known = [(call, varies(call.input)) for call in calls if size and call.input.ndim and len(call.input) % size == 0]
    flat = next((row for row in rows if row.varies == (True, False)), None)
    last = next((row for row in reversed(rows) if row.varies[1]), None)
    if flat is not None:
        place, advice = Place(module=flat.named), "look at the range that goes into it, in the table above"
    elif last is not None:
        place, advice = Place(module=last.named, note="after it"), "look at what is done to its output"
    elif differ and rows:
        place, advice = Place(module=rows[0].named, note="before it"), "look at what is done to the batch before it"
    else:
        place, advice = Place(loader="train_dataloader", batch=0), "look at the batch: are its samples the same?"
    return [SampleOutputs(len(c.input), not differs, place, advice) for c, differs in known if differs is not None]


def seen_with_less(
    watch: Watch, trainer: Trainer, pl_module: LightningModule, batch: Any
) -> set[tuple[str, int]] | None:
    """Return the lines that do the same over the samples of a batch with one less; None where the step refuses it."""
    size = watch.size - 1
    with suppress(Exception), isolate_rng():
        copy = stand_in(pl_module, trainer)
        again = SoftmaxesOverBatch(size), Pairs(size)
        grad = torch.set_grad_enabled(watch.step == "training_step")
        with grad, trainer.precision_plugin.forward_context(), Tracer(copy, *again):
            call_step(copy, watch.step, first_of(batch, size))
        return {(call.place.file, call.place.line) for listener in again for call in listener.calls}
    return None
