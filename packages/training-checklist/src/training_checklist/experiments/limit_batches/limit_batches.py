"""Five batches to train on, two to validate and to test with: are the data what they claim to be?"""

import re
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

import numpy as np
import torch
from torch import Tensor

from training_checklist.engines.around_step import around_step
from training_checklist.engines.batches import leaves
from training_checklist.engines.compared import compared_leaves
from training_checklist.engines.criteria import Criteria
from training_checklist.engines.entrances import MULTIPLIES, Entrances
from training_checklist.engines.own_code import is_tool_error
from training_checklist.engines.replay import reported_loss
from training_checklist.engines.splits import Split, splits
from training_checklist.engines.tracer import Tracer
from training_checklist.evidence.labels import (
    LabelCounts,
    LabelFit,
    LabelledClasses,
    LabelRuns,
    SplitLabels,
    TrainingLabels,
)
from training_checklist.evidence.values import (
    Entering,
    Form,
    Forms,
    InputScale,
    LabelRange,
    Losses,
    TokenRange,
)
from training_checklist.experiments.experiment import RAISES, Experiment
from training_checklist.experiments.limit_batches.claim import average, named_by_transforms
from training_checklist.experiments.limit_batches.class_weights import WeightedClasses, WeightedPositives
from training_checklist.experiments.limit_batches.label_fit import of_known_classes, sample_of, tables
from training_checklist.experiments.limit_batches.masks import masks
from training_checklist.experiments.limit_batches.samples import (
    not_finite,
    same_inputs,
)
from training_checklist.experiments.limit_batches.texts import held_out_tokens, text_lengths, token_share
from training_checklist.experiments.limit_batches.token_labels import bags, ignored_tokens, token_fit, token_labels
from training_checklist.experiments.limit_batches.whole_numbers import coarse_numbers
from training_checklist.finding import Finding, Place
from training_checklist.lab.data import OVER, RAISED, UNREAD, Data, Part, in_order, order_of
from training_checklist.lab.data import part as part_of
from training_checklist.lab.loading import is_plain, mixed_by_collate
from training_checklist.lab.roles import Roles, roles_of
from training_checklist.lab.stored import (
    origin,
    raw_row,
    stored_inputs,
    stored_labels,
)
from training_checklist.lightning import LightningModule, Trainer
from training_checklist.probe import Probe
from training_checklist.rule import CannotJudge

SHOWN = 8  # samples that are looked at as they are kept

TAKES_COLUMNS = {"linear", "lstm", "gru", "rnn_tanh", "rnn_relu"}
MOST_COLUMNS = 256  # of a table: more numbers of a sample are those of an image or a waveform
ENOUGH = 20  # labels of a class, by which its share of the whole is known to a quarter


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
        self.criteria, self.entrances = Criteria(), Entrances()
        self.source: Any = None
        self.batch_idx = 0
        self.forms: list[Form] = []
        self.losses: list[float] = []
        self.seen_labels: list[Tensor] = []
        self.weighted, self.positives = WeightedClasses(), WeightedPositives()
        self.spoilt: set[tuple[str, bool, str]] = set()
        self.entering: list[Tensor] = []  # what the first layer takes, batch by batch
        self.layer = ""
        self.ranges: dict[tuple[str, str], Entering] = {}  # by place in the batch and layer

    def setup(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:
        super().setup(trainer, pl_module, stage)
        self.source = trainer.fit_loop._data_source

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self._see(trainer, pl_module, splits("train", trainer.train_dataloader))
        self.ask(self.of(UNREAD), self.data)
        tracer = Tracer(pl_module, self.entrances, self.criteria)
        self.watching.enter_context(around_step(pl_module, tracer))

    def on_train_batch_start(self, trainer: Trainer, pl_module: LightningModule, batch: Any, batch_idx: int) -> None:
        self.batch_idx = batch_idx
        self.criteria.calls.clear()
        self.entrances.begin(batch)

    def on_train_batch_end(
        self, trainer: Trainer, pl_module: LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        self._judge_indices()
        if self.roles is None:
            self.data.roles = roles_of(batch, self.entrances, self.criteria)
            self.roles.compared = self._compared(trainer, pl_module, batch)
            self._look(masks, trainer, pl_module, batch, self.roles)
            self._look(coarse_numbers, batch)
        where = Place(loader="train_dataloader", batch=batch_idx)
        for entrance in self.entrances.found:
            self._judge_values(entrance.leaf, entrance.value, where)
        self._see_layer()
        self._see_batch(batch, where)
        whole = {place: leaf for place, leaf in leaves(batch).items() if leaf.ndim and not leaf.is_floating_point()}
        self.data.whole_numbers.append({place: leaf.cpu() for place, leaf in whole.items()})
        loss = reported_loss(outputs, trainer)
        self.losses += [] if loss is None else [float(loss)]
        self.weighted.add(self.criteria.calls)
        self.positives.add(self.criteria.calls)
        self.criteria.calls.clear()
        self.entrances.begin(None)

    def on_validation_batch_start(
        self, trainer: Trainer, pl_module: LightningModule, batch: Any, batch_idx: int, dataloader_idx: int = 0
    ) -> None:
        several = len(splits("val", trainer.val_dataloaders)) > 1
        name = f"val_dataloader[{dataloader_idx}]" if several else "val_dataloader"
        if self.roles is not None:
            self._see_batch(batch, Place(loader=name, batch=batch_idx))

    def on_fit_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self.watching.close()
        if self.data is None:  # Lightning trains nothing, and says so in a warning, where a loader is empty
            self._see(trainer, pl_module, splits("train", self.source.dataloader()))
        self.data.until = time.monotonic() + self.seconds
        if self.roles is not None:
            self._judge(trainer, pl_module)
        self.ask(sorted(self.of(OVER), key=lambda probe: probe.symptom), self.data)
        if self.roles is None:
            if not self.findings:
                self.skip("no batch was run")
            return
        sizes = [
            f"{each.name.removesuffix('_dataloader')} {each.samples or 'unknown (no length)'}"
            for each in self.data.splits
        ]
        self.seen = "; ".join([f"samples: {', '.join(sizes)}", *self._described()])

    def _judge(self, trainer: Trainer, pl_module: LightningModule) -> None:
        train, held_out = self.data.loaders, self.data.held_out
        self.judge(Forms(self.forms, self.roles.inputs))
        if len(train) == 1:
            self._look(text_lengths, train[0], self.until)
            self._judge_splits(train[0], held_out, trainer)
        self._look(self._input_scale, train, trainer)
        if self.has_found("data/inputs-off-scale", "data/unlike-claim"):  # which says it of all columns
            for entering in self.ranges.values():
                entering.columns.clear()
        self.judge(*self.ranges.values())
        self.judge(*self.weighted.evidence, *self.positives.found.values())
        self.judge(Losses(self.losses, self.has_found(), Place(function="training_step")))

    def explain(self, error: Exception) -> Finding | None:
        """Return the labels or tokens without a row, or the samples of another size, that an exception is about."""
        known = len(self.findings)
        if self.data is not None:
            self.data.error = error
            self.ask(self.of(RAISED), self.data)
        self._judge_indices()
        return self.findings[known] if len(self.findings) > known else None

    @property
    def roles(self) -> Roles | None:
        return None if self.data is None else vars(self.data).get("roles")

    @property
    def until(self) -> float:
        return self.data.until

    def of(self, moment: str) -> list[Probe]:
        """Return the probes that are asked at a moment: when a fit is over those that name none."""
        named = [(probe, {UNREAD, OVER, RAISED} & {*probe.steps} or {OVER}) for probe in self.probes]
        return [probe for probe, moments in named if moment in moments]

    def _see(self, trainer: Trainer, pl_module: LightningModule, loaders: list[Split]) -> None:
        self.data = Data(trainer, pl_module, loaders, self.samples, self.seconds, self.findings)

    def _look(self, see: Callable[..., Any], *given: Any) -> None:
        """Judge evidence that the run itself does not bring: it may be had in a way that only a loader knows."""
        try:
            evidence = see(*given)
        except Exception as error:
            if is_tool_error(error):
                self.fail_itself(error, self.item)
            self.facts.setdefault("not_looked_at", f"{RAISES} {type(error).__name__}: {error}")
        else:
            self.judge(*(each for each in (evidence if isinstance(evidence, list) else [evidence]) if each is not None))

    def _compared(self, trainer: Trainer, pl_module: LightningModule, batch: Any) -> frozenset[str]:
        """Return the places in a batch that the loss depends on and no layer sees; none where no copy can tell."""
        if not pl_module.automatic_optimization or trainer.world_size > 1:
            return frozenset()
        with suppress(Exception):  # of the project's step, on a batch that the run does not have
            return frozenset(path for path, _, _ in compared_leaves(trainer, pl_module, batch))
        return frozenset()

    def _judge_indices(self) -> None:
        """Judge the labels and tokens of the present step, whether or not it has come to its end."""
        where = Place(loader="train_dataloader", batch=self.batch_idx)
        for call in self.criteria.calls:
            if call.num_classes is not None:
                place = where.beside(module=call.place.module, file=call.place.file, line=call.place.line)
                self._judge_labels(call.target[call.target != call.ignored], call.num_classes, place)
        for each in self.entrances.found:
            if each.rows is not None:
                self._judge_tokens(each.value, each.rows, each.leaf, where.beside(module=each.place.module))

    def _judge_tokens(
        self, tokens: Tensor, rows: int, name: str, place: Place, indices: list[Any] | None = None
    ) -> None:
        if not self.has_found("data/token-out-of-range"):
            wrong, count, total, first = outside(tokens, rows)
            sample = first if first is None or indices is None else indices[first]
            self.judge(TokenRange(wrong, count, total, rows, name, place.beside(sample=sample)))

    def _judge_labels(self, labels: Tensor, classes: int, place: Place) -> None:
        if not self.has_found("data/label-out-of-range"):
            wrong, count, total, first = outside(labels, classes)
            self.judge(LabelRange(wrong, count, total, classes, place.beside(sample=first)))

    def _judge_values(self, name: str, leaf: Tensor, place: Place, indices: list[int] | None = None) -> None:
        if (
            place.loader,
            place.batch is None,
            name,
        ) not in self.spoilt:  # one finding for a loader and its dataset each
            found = not_finite(leaf, name, place, indices)
            self.spoilt |= {(place.loader, place.batch is None, name)} if found.values else set()
            self.judge(found)

    def _see_layer(self) -> None:
        """Keep what the first layer takes, where it multiplies that with weights: a norm takes any scale."""
        first = next((each for each in self.entrances.found if each.leaf == self.roles.input), None)
        if first is not None and first.operation in MULTIPLIES and first.value.isfinite().all():
            self.layer = first.place.module or first.operation
            self.entering.append(first.value.cpu().double())  # not every device has float64
        for each in self.entrances.found:
            if each.operation in MULTIPLIES and each.value.numel() and each.value.is_floating_point():
                low, high = map(float, each.value.aminmax())
                place = Place(loader="train_dataloader", module=each.place.module or each.operation, note=each.leaf)
                known = self.ranges.setdefault(
                    (each.leaf, each.place.module), Entering(low, high, each.leaf == self.roles.input, place)
                )
                known.low, known.high = min(known.low, low), max(known.high, high)
                if each.operation in TAKES_COLUMNS and each.value.ndim > 1 and each.value.shape[-1] <= MOST_COLUMNS:
                    rows = each.value.flatten(0, -2).cpu().double()
                    if len(rows) > 1 and not known.columns:  # the first batch has enough of them to tell
                        known.columns = list(zip(rows.mean(0).tolist(), rows.std(0).tolist(), strict=True))

    def _see_batch(self, batch: Any, where: Place) -> None:
        found = leaves(batch)
        for place in self.roles.places:
            leaf = found.get(place)
            if leaf is None:
                continue
            kind = str(leaf.dtype).removeprefix("torch.")
            self.forms.append(Form(where.loader, where.batch, place, kind, tuple(leaf.shape)))
            if place in self.roles.direct:
                self._judge_values(place, leaf, where)
            if place == self.roles.target and where.loader == "train_dataloader":
                self.seen_labels.append(leaf.detach().cpu())

    def _judge_splits(self, train: Split, held_out: list[Split], trainer: Trainer) -> None:
        parts: dict[str, Part] = {}
        for split in (train, *held_out):
            self._look(lambda split=split: self._load(parts, split))
        own = parts.get(train.name, Part(train))
        for split in held_out:
            other = parts.get(split.name, Part(split))
            self._look(held_out_tokens, own, other, self.roles)
        if not any(self._mixed(split) for split in held_out):  # then a sample that is loaded alone is another one
            self._look(same_inputs, own, self.roles, trainer, self.until)
        if self.roles.classes is not None:
            others = [parts[each.name] for each in held_out if each.name in parts]
            self._look(self._split_labels, own, others)
            self._look(self._labelled, own, others)
            self._look(self._whole, own)
            self._look(token_labels, own, self.roles)
            self._look(ignored_tokens, own, self.roles)
            for other in others:
                self._look(token_fit, own, other, self.roles)
            self._look(self._label_fits, own, others, trainer)

    def _mixed(self, split: Split) -> bool:
        try:
            return bool(mixed_by_collate(self.data, split))
        except CannotJudge:
            return False

    def _load(self, parts: dict[str, Part], split: Split) -> None:
        own = parts[split.name] = part_of(self.data, split)
        for place in self.roles.direct & set(own.values):
            self._judge_values(place, own.values[place], split.place, own.indices)
        for place, rows in self.roles.tables.items():
            if split.stage == "train":
                self.judge(*token_share(own, place, rows))
            if place in own.values:
                self._judge_tokens(own.values[place], rows, place, split.place, own.indices)
            elif place in own.chunks:  # of several lengths
                tokens = torch.cat([chunk.flatten() for chunk in own.chunks[place]])
                self._judge_tokens(tokens, rows, place, split.place, [None] * len(tokens))

    def _split_labels(self, own: Part, others: list[Part]) -> list[Any]:
        labels = {part.split.name: self._labels(part) for part in (own, *others)}
        counts = []
        for part in (own, *others):
            known = labels[part.split.name].long()
            known = known[known != self.roles.ignored]
            self._judge_labels(known, self.roles.classes, part.split.place)
            inside = known[(known >= 0) & (known < self.roles.classes)]
            found = {int(label): int(count) for label, count in zip(*inside.unique(return_counts=True), strict=True)}
            counts.append(LabelCounts(part.split.name, found, part.split.place))
        own_labels = own.of(self.roles.target) if own.values else labels[own.split.name]
        return [SplitLabels(self.roles.classes, counts[0], counts[1:]), self._label_runs(own.split, own_labels)]

    def _whole(self, own: Part) -> None:
        """Tell the weights of classes how often each class is among the labels of the training set."""
        labels = self._labels(own)
        known = labels[labels != self.roles.ignored].long()
        for weights in self.weighted.found.values():
            classes = len(weights.weights)
            if known.numel() and int(known.min()) >= 0 and int(known.max()) < classes:
                counts, sampled = known.bincount(minlength=classes).tolist(), len(labels) < own.split.samples
                if not sampled or min(counts) >= ENOUGH:
                    weights.whole, weights.sampled = counts, sampled

    def _labelled(self, own: Part, others: list[Part]) -> LabelledClasses:
        counts: Counter[int] = Counter()
        obstacle = "the classes are words of a vocabulary" if self.roles.classes in self.roles.tables.values() else ""
        for part in (own, *others):
            labels = self._labels(part)
            dense = part.of(self.roles.target)
            if not len(labels) and dense is not None:  # of pixels or time steps
                labels, number = dense.flatten(), len(dense)
            else:
                number = len(labels)
            counts.update(labels[labels != self.roles.ignored].long().tolist())
            if part is own and number != part.split.samples:
                obstacle = obstacle or "not all training labels were looked at"
        return LabelledClasses(self.roles.classes, dict(counts), obstacle, own.split.place)

    def _label_runs(self, split: Split, labels: Tensor) -> LabelRuns | None:
        """Return how labels follow one another where training reads them in the order of the dataset."""
        if not in_order(self.data) or not len(labels):
            return None
        place = split.place.beside(note=f"sampler {split.sampler} over {split.place.note}")
        runs = 1 + int((labels[1:] != labels[:-1]).sum())
        return LabelRuns(split.sampler, labels.unique(return_counts=True)[1].tolist(), runs, place)

    def _labels(self, part: Part) -> Tensor:
        """Return the labels of a split, as many as can be had, in the order of the dataset."""
        labels = part.of(self.roles.target)
        if labels is None or labels.ndim != 1:
            size = part.split.loader.batch_size
            one_each = [each for each in self.seen_labels if each.ndim == 1 and len(each) == size]
            streamed = part.split.stage == "train" and not part.split.indexable and one_each
            return torch.cat(one_each) if streamed else torch.tensor([])
        whole = None if labels.is_floating_point() else stored_labels(part.split.dataset, part.indices, labels)
        return labels if whole is None else whole

    def _inputs(self, part: Part) -> Tensor | None:
        """Return what labels are held against: numbers as they are, and texts by the tokens that they have."""
        return bags(part, self.roles) if self.roles.input is None else part.of(self.roles.input)

    def _label_fits(self, own: Part, held_out: list[Part], trainer: Trainer) -> list[LabelFit]:
        """Hold labels against inputs as the network gets them, and training labels against plain ones too."""
        labels, chosen = own.of(self.roles.target), (self.roles.classes, self.roles.ignored)
        train = sample_of(self._inputs(own), labels, *chosen)
        plain = train if is_plain(self.data) else None
        if plain is None and labels is not None:
            plain = sample_of(stored_inputs(own.split.dataset, own.indices), labels, *chosen)
        found: list[LabelFit] = []
        for part in held_out:
            held = sample_of(self._inputs(part), part.of(self.roles.target), *chosen)
            for kind, inputs in ((LabelFit, train), (TrainingLabels, plain)):
                if inputs is None or held is None or inputs.inputs.shape[1] != held.inputs.shape[1]:
                    continue
                known = of_known_classes(held, inputs)
                if known is not None:
                    found.append(kind(part.split.name, *tables(inputs, known), part.split.place))
        return found

    def _input_scale(self, train: list[Split], trainer: Trainer) -> InputScale | None:
        if not self.entering:
            return None
        values = torch.cat([each.flatten() for each in self.entering])
        claim = self.claim if self.claim is not None else named(train, trainer.datamodule)
        first = next(form for form in self.forms if form.leaf == self.roles.input)
        # Images of 8 bits have 256 values in each channel, unless they were interpolated.
        channels = min(first.shape[1:], default=0)
        few = len(values) > 2048 * channels >= 8 * len(values.unique())
        pixels = any(map(keeps_bytes, train[:1])) or (
            len(first.shape) == 4 and channels <= 4 and (few or claim is not None)
        )
        place = Place(loader="train_dataloader", module=self.layer, note=self.roles.input)
        (low, high), mean, std = values.aminmax(), float(values.mean()), float(values.std())
        self.facts["inputs"] = {"mean": mean, "std": std}
        levels = max(len(sample.unique()) for sample in self.entering[0])
        stored = next((stored_levels(split) for split in train[:1]), None)
        return InputScale(mean, std, float(low), float(high), pixels, claim, place, levels, stored)

    def _described(self) -> list[str]:
        inputs = self.facts.get("inputs")
        parts = [] if inputs is None else [f"inputs: mean {inputs['mean']:.2f}, std {inputs['std']:.2f}"]
        parts += [] if self.roles.classes is None else [f"{self.roles.classes} classes"]
        if len(self.data.loaders) == 1 and self.data.train.order() is not None:
            order = order_of(self.data, self.data.train)
            parts.append(f"training set {'in order' if order.ascending else 'shuffled'} ({order.sampler})")
        raised = [each for each in self.unjudged.values() if each.startswith(RAISES)]
        raised = next(iter(raised), self.facts.get("not_looked_at"))
        return parts if raised is None else [*parts, f"not looked at: samples beyond the batches of the run: {raised}"]


def outside(indices: Tensor, number: int) -> tuple[list[int], int, int, int | None]:
    """Return which indices are not in 0..number - 1, how many, of how many, and the first sample that has one."""
    wrong = (indices < 0) | (indices >= number)
    first = int(wrong.nonzero()[0, 0]) if wrong.ndim and wrong.any() else None
    return indices[wrong].long().unique().tolist(), int(wrong.sum()), indices.numel(), first


def named(train: list[Split], datamodule: Any) -> tuple[float, float] | None:
    """Return the one mean and std that transforms of the training set name, None of several or none."""
    attributes = vars(datamodule).items() if datamodule is not None else ()
    own = [value for name, value in attributes if re.search("transform|augment|normali[sz]", name)]
    found = {each for value in (*(split.dataset for split in train), *own) for each in named_by_transforms(value)}
    return found.pop() if len(found) == 1 else None


def stored_levels(split: Split) -> int:
    """Return how many different values one of a dataset's first samples has as it is kept; 0 where that is unknown."""
    row = raw_row(origin(split.dataset)[0]) if split.samples else None
    kept = [row(index) for index in range(min(split.samples or 0, SHOWN))] if row is not None else []
    return max((len(np.unique(np.asarray(each))) for each in kept if hasattr(each, "dtype")), default=0)


def keeps_bytes(split: Split) -> bool:
    """Whether a dataset keeps images of 8 bits."""
    row = raw_row(origin(split.dataset)[0]) if split.samples else None
    return row is not None and str(getattr(row(0), "dtype", "")).endswith("uint8")
