"""Five batches to train on, two to validate and to test with: are the data what they claim to be?"""

import math
import time
from collections import Counter
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.utils.data import BatchSampler

from training_checklist.diagnosis.diagnose import diagnose
from training_checklist.engines.batches import tensors
from training_checklist.engines.criterion_calls import CriterionCall, CriterionCalls, around_training_step
from training_checklist.engines.replay import reported_loss, seed_all, unchanged, unwatched
from training_checklist.experiments.experiment import Experiment
from training_checklist.experiments.limit_batches.input_scale import FirstLayer, average, scaling
from training_checklist.experiments.limit_batches.label_fit import (
    Sample,
    accuracy,
    confusion,
    nearness,
    renamed,
    sample_of,
)
from training_checklist.experiments.limit_batches.splits import Split, leaves, splits
from training_checklist.experiments.limit_batches.stored_samples import (
    are_unlikely_to_repeat,
    digest,
    is_blank,
    origin,
    raw_row,
    row_size,
    stored_labels,
)
from training_checklist.finding import FAILED, Finding, unsorted
from training_checklist.lightning import LightningModule, Trainer, is_overridden, isolate_rng

COMPARED = 150  # samples that are compared with each other
LEAST = 50  # samples by which a split is judged
TWICE = 64  # samples that are loaded twice


class LimitBatches(Experiment):
    """Fails where batches, labels, splits or the normalisation of inputs are not what training takes them for.

    Batches are judged as the network gets them, after Lightning's transfer hooks. Beyond the batches of the run, a
    random choice of samples of each split is loaded, and what datasets keep in memory is compared between splits.

    Args:
        mean: that the config normalises with, a number or one for each channel; None where it claims nothing.
        std: likewise.
        samples: of each split to look at beyond the batches of the run, at most.
        seconds: after which no more samples are loaded.
        max_shared: share of validation or test samples that may be in the training set too.
        max_shift: between the means of two splits' inputs, in standard deviations.
        max_ratio: between their standard deviations.
        max_std: of inputs for which the config claims no normalisation.
        min_std: likewise.
        max_same: share of input values that may be the same number other than 0.
        max_repeated: share of training samples that may be another one over again.
        min_alike: share of the training set's accuracy by nearest centroid that another split must have.
        min_recall: share of a class that a nearest-centroid classifier must find before it may judge its labels.
    """

    item = "limit_batches"
    shapes_run = True
    no_workers = True

    def __init__(
        self,
        mean: float | Sequence[float] | None,
        std: float | Sequence[float] | None,
        samples: int,
        seconds: float,
        max_shared: float,
        max_shift: float,
        max_ratio: float,
        max_std: float,
        min_std: float,
        max_same: float,
        max_repeated: float,
        min_alike: float,
        min_recall: float,
    ) -> None:
        super().__init__()
        self.claim = None if mean is None or std is None else (average(mean), average(std))
        self.samples, self.seconds, self.max_shared = samples, seconds, max_shared
        self.max_shift, self.max_ratio = max_shift, max_ratio
        self.max_std, self.min_std, self.max_same, self.min_recall = max_std, min_std, max_same, min_recall
        self.max_repeated, self.min_alike = max_repeated, min_alike
        self.losses: list[float] = []
        self.forms: dict[str, dict[str, tuple[str, Tensor]]] = {}  # loader: place in the batch: first seen there
        self.batch: Any = None
        self.batch_input: Tensor | None = None
        self.batch_idx = 0
        self.label_place: str | None = None
        self.input_place: str | None = None
        self.classes: int | None = None
        self.per_sample = False
        self.seen_labels: list[Tensor] = []
        self.spoilt: set[tuple[str, str]] = set()

    def setup(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:
        super().setup(trainer, pl_module, stage)
        self.source = trainer.fit_loop._data_source

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self.criteria, self.first_layer = CriterionCalls(pl_module), FirstLayer(pl_module)
        self.watching = around_training_step(pl_module, self.criteria, self.first_layer)
        self.watching.__enter__()

    def on_train_batch_start(self, trainer: Trainer, pl_module: LightningModule, batch: Any, batch_idx: int) -> None:
        self.batch, self.batch_idx = batch, batch_idx
        self.criteria.criteria.clear()
        if self.input_place is None:
            self.input_place = input_of(batch)
        if self.input_place is not None:
            self.batch_input = leaves(batch)[self.input_place]
            self.first_layer.numel = self.batch_input.numel()
        self._judge_batch("train_dataloader", batch, batch_idx)

    def on_validation_batch_start(
        self, trainer: Trainer, pl_module: LightningModule, batch: Any, batch_idx: int, dataloader_idx: int = 0
    ) -> None:
        several = len(splits("val", trainer.val_dataloaders)) > 1
        self._judge_batch(f"val_dataloader[{dataloader_idx}]" if several else "val_dataloader", batch, batch_idx)

    def on_train_batch_end(
        self, trainer: Trainer, pl_module: LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        if self.label_place is None:
            self._find_labels(batch)
        if self.per_sample:
            self.seen_labels.append(leaves(batch)[self.label_place].detach().cpu().flatten())
        outside = self._outside()
        if outside is not None:
            self._add(outside)
        loss = reported_loss(outputs, trainer)
        if loss is not None:
            self.losses.append(float(loss))
        self.criteria.criteria.clear()

    def on_fit_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        if not hasattr(self, "watching"):
            self._judge_empty()
            return
        self.watching.__exit__(None, None, None)
        if not self.forms:
            self.skip("no batch was run")
            return
        self.until = time.monotonic() + self.seconds
        train = splits("train", trainer.train_dataloader)
        held_out = splits("val", trainer.val_dataloaders) + self._test_splits(trainer, pl_module)
        try:
            if len(train) == 1:
                self._judge_short(train[0], trainer, pl_module)
                self._judge_splits(train[0], held_out, trainer)
        except Exception as error:  # of a dataset that is read in a way that only its own loader knows
            self.facts["not_looked_at"] = f"samples beyond the batches of the run: {type(error).__name__}: {error}"
        self._judge_normalisation(train)
        self._judge_losses()
        sizes = [f"{split.name.removesuffix('_dataloader')} {size(split)}" for split in (*train, *held_out)]
        self.seen = "; ".join([f"samples: {', '.join(sizes)}", *self._described()])

    def on_exception(self, trainer: Trainer, pl_module: LightningModule, exception: BaseException) -> None:
        super().on_exception(trainer, pl_module, exception)
        if hasattr(self, "watching"):
            self.watching.__exit__(None, None, None)

    def explain(self, error: Exception) -> Finding | None:
        """Return the labels without an output, or the samples of another size, that an exception is about."""
        if "stack expects each tensor to be equal size" in str(error):
            return self._odd_one_out(error)
        return self._outside() if hasattr(self, "criteria") else None

    def _odd_one_out(self, error: Exception) -> Finding | None:
        until = time.monotonic() + self.seconds
        for split in splits("train", self.source.dataloader()):
            sizes: dict[str, list[int]] = {}
            for index in range(len(split.dataset)) if split.indexable else ():
                largest = max(tensors(split.items([index])), key=row_size, default=None)
                if largest is None or time.monotonic() > until:
                    break
                sizes.setdefault("x".join(map(str, largest.shape)), []).append(index)
            if len(sizes) > 1:
                usual, *others = sorted(sizes, key=lambda size: -len(sizes[size]))
                return unsorted(
                    FAILED,
                    f"item {sizes[others[0]][0]} of the training set is {others[0]} and others are {usual}; "
                    f"{sum(len(sizes[size]) for size in others)} of the first {index + 1} are of another size",
                    f"{split.where}, item {sizes[others[0]][0]}",
                    f"samples of several sizes make no batch: {error}",
                    "resize, crop or pad them in the dataset, or give the DataLoader a collate_fn that can",
                )
        return None

    def _judge_empty(self) -> None:
        """Lightning trains nothing, and says so in a warning, where the loader is empty."""
        for split in splits("train", self.source.dataloader()):
            loader = split.loader
            if size(split) == 0 or (split.indexable and len(loader) == 0):
                self.fail(
                    f"train_dataloader has no batch: {size(split)} samples, batch_size={loader.batch_size}, "
                    f"drop_last={loader.drop_last}",
                    split.where,
                    "nothing is trained, and the run ends as if it had been",
                    "a batch_size of at most the number of samples, or drop_last=False",
                )
                return
        self.skip("no batch was run")

    def _judge_short(self, split: Split, trainer: Trainer, pl_module: LightningModule) -> None:
        """Give the network as few samples as the last batch of an epoch has, which this run does not come to."""
        count = len(self.batch_input) if self.batch_input is not None else 0
        rest = len(split.dataset) % count if split.indexable and count and not split.loader.drop_last else 0
        if rest == 0:
            return
        # In the mode of training: BatchNorm takes no batch of one sample there.
        with unwatched(pl_module), unchanged(pl_module), torch.no_grad(), trainer.precision_plugin.forward_context():
            try:
                pl_module(self.batch_input)
            except Exception:  # it is called in another way
                return
            try:
                pl_module(self.batch_input[:rest])
            except Exception as error:
                found = diagnose(error)
                self.fail(
                    f"the last batch of an epoch has {rest} samples, not {count}, and the network fails: {found.what}",
                    f"{found.where}; {split.where}",
                    "training ends with an exception at the end of its first epoch",
                    "take the number of samples from the input (x.shape[0], flatten(1)), or drop_last=True",
                )

    def _outside(self) -> Finding | None:
        for call in self.criteria.criteria:
            if not call.outside:
                continue
            return unsorted(
                FAILED,
                call.outside,
                f"train_dataloader, batch {self.batch_idx}, item {call.first_outside}; {call.place}",
                "the criterion looks for an output of that number: an IndexError, or a crash of the GPU",
                "let labels run from 0 to the number of classes - 1, or give the network more outputs",
            )
        return None

    def _judge_batch(self, name: str, batch: Any, batch_idx: int) -> None:
        known = self.forms.setdefault(name, {})
        for place, leaf in leaves(batch).items():
            where = f"{name}, batch {batch_idx}"
            self._judge_values(place, leaf, where)
            first_where, first = known.setdefault(place, (where, leaf))
            if first.dtype != leaf.dtype or first.ndim != leaf.ndim:
                self.fail(
                    f"{place} is {form(leaf)} here and {form(first)} in {first_where}",
                    f"{where}, {place}",
                    "the network is trained on inputs of one kind and given another",
                    "make the dataset or collate_fn return one form for every sample",
                )
            elif leaf.ndim == 4 and leaf.is_floating_point() and first.shape[1:] != leaf.shape[1:]:
                self.warn(
                    f"{place} is {form(leaf)} here and {form(first)} in {first_where}",
                    f"{where}, {place}",
                    "images of several sizes fit few networks",
                    "resize or crop them to one size in the dataset, unless that is meant",
                )
            train = self.forms["train_dataloader"].get(place) if "train_dataloader" in self.forms else None
            # The input alone: labels may be mixed for training, and whole for validation.
            if train is not None and place == self.input_place and train[1].dtype != leaf.dtype:
                self.fail(
                    f"{place} is {form(leaf)} here and {form(train[1])} in {train[0]}",
                    f"{where}, {place}",
                    "the network is trained on inputs of one kind and validated on another",
                    "let both splits go through the same conversions",
                )

    def _judge_values(self, place: str, leaf: Tensor, where: str, indices: list[int] | None = None) -> None:
        told = (where.partition(",")[0], place)
        if told in self.spoilt or not leaf.is_floating_point() or leaf.isfinite().all():
            return
        self.spoilt.add(told)  # one finding for each loader and each dataset
        wrong = ~leaf.isfinite()
        positions = wrong.nonzero()[:, 0].unique().tolist() if leaf.ndim else [0]
        kind = "NaN" if leaf.isnan().any() else "Inf"
        item = positions[0] if indices is None else indices[positions[0]]
        total = len(leaf) if leaf.ndim else 1
        self.fail(
            f"{int(wrong.sum())} values of {place} are {kind}, in {len(positions)} of {total} samples",
            f"{where}, item {item}, {place}",
            "one such value makes the loss NaN, and after the next step every weight",
            "look at that sample; drop or repair it in the dataset",
        )

    def _find_labels(self, batch: Any) -> None:
        for call in self.criteria.criteria:
            for place, leaf in leaves(batch).items():
                classes = label_classes(call, leaf)
                if classes is not None:
                    self.label_place, self.classes = place, classes
                    self.per_sample = leaf.ndim == 1
                    self.ignored = call.ignored
                    return

    def _test_splits(self, trainer: Trainer, pl_module: LightningModule) -> list[Split]:
        source = pl_module if trainer.datamodule is None else trainer.datamodule
        if not is_overridden("test_dataloader", source):
            return []
        try:
            source.setup("test")
            return splits("test", source.test_dataloader())
        except Exception as error:  # the run itself does not need it
            self.warn(
                f"the test split cannot be loaded: {type(error).__name__}: {error}",
                f"{type(source).__name__}.setup('test'), test_dataloader",
                "testing after training will end in the same error",
                "python train.py +debug=fast_dev_run",
            )
            return []

    def _judge_splits(self, train: Split, held_out: list[Split], trainer: Trainer) -> None:
        parts = {split.name: self._load(split, trainer) for split in (train, *held_out)}
        own = parts[train.name]
        for split in held_out:
            self._judge_augmentation(split, trainer)
            self._judge_shared(train, split)
            self._judge_scale(train, split, own, parts[split.name])
        self._judge_order(train, held_out, own)
        self._judge_repeats(train, own)
        if self.per_sample:
            labels = {split.name: self._labels(split, parts[split.name]) for split in (train, *held_out)}
            self._judge_labels(train, held_out, labels)
        for split in held_out:
            self._judge_fit(split, own, parts[split.name])

    def _load(self, split: Split, trainer: Trainer) -> "Part":
        """Load some samples from all over a split, as the network gets them."""
        part = Part()
        if not split.indexable or not len(split.dataset):
            return part
        until = time.monotonic() + max(self.until - time.monotonic(), 0) / 2
        for indices, batch in split.fetch(split.chosen(self.samples), trainer, until):
            found = leaves(batch)
            for place, leaf in found.items():
                self._judge_values(place, leaf, split.where, indices)
            inputs, labels = found.get(self.input_place), found.get(self.label_place)
            if inputs is None or len(inputs) != len(indices):
                return part
            if part.inputs and inputs.shape[1:] != part.inputs[0].shape[1:]:
                return part
            part.indices += indices
            part.inputs.append(inputs.detach().cpu())
            if self.per_sample and labels is not None and labels.shape == (len(indices),):
                part.labels.append(labels.detach().cpu())
        return part

    def _judge_augmentation(self, split: Split, trainer: Trainer) -> None:
        if not split.indexable:
            return
        chosen = split.chosen(TWICE)
        passes = [split.fetch(chosen, trainer, self.until) for _ in range(2)]
        for (_, one), (_, again) in zip(*map(list, passes), strict=False):
            first, second = leaves(one).get(self.input_place), leaves(again).get(self.input_place)
            if first is None or not first.is_floating_point() or first.shape != second.shape:
                return
            differ = ~torch.isclose(first, second, rtol=1e-4, atol=1e-5, equal_nan=True).flatten(1).all(1)
            if differ.any():
                self.fail(
                    f"{int(differ.sum())} of {len(differ)} samples of {split.name} differ when they are loaded again",
                    f"{split.where}, item {chosen[int(differ.nonzero()[0, 0])]}",
                    "random augmentation of validation or test data: metrics change from one pass to the next",
                    "give this split transforms without randomness",
                )
                return

    def _judge_shared(self, train: Split, split: Split) -> None:
        """Compare what the two datasets keep, before any augmentation."""
        if not (train.indexable and split.indexable):
            return
        base, inside = origin(train.dataset)
        other, outside = origin(split.dataset)
        total = len(split.dataset)
        if other is base:
            common = set(range(len(base)) if inside is None else inside)
            asked = range(len(base)) if outside is None else outside
            positions = [position for position, index in enumerate(asked) if index in common]
            allowed = 0.0
        else:
            rows, others = self._rows(base, inside, train), self._rows(other, outside, split)
            if not rows or not others:
                return
            counts, total = Counter(map(digest, rows)), len(others)
            positions = [i for i, row in enumerate(others) if digest(row) in counts]
            allowed = self.max_shared
            if are_unlikely_to_repeat(rows[:: len(rows) // COMPARED + 1]):
                positions = [i for i in positions if not is_blank(others[i])]
            else:  # as often as within the training set is no leak
                allowed += 2 * sum(count for count in counts.values() if count > 1) / len(rows)
        self.facts[f"shared_with_{split.name}"] = len(positions)
        if len(positions) > allowed * total:
            self.fail(
                f"{len(positions)} of {total} samples of {split.name} are in the training set too",
                f"{split.where}, item {positions[0]}{', ...' if len(positions) > 1 else ''}",
                "the network knows them by heart: its metrics there say nothing about new data",
                "make the splits disjoint: one permutation of the indices, cut once",
            )

    def _judge_repeats(self, train: Split, part: "Part") -> None:
        """Load samples with the same random numbers each: those that are the same then are one sample."""
        if not train.indexable or len(part.indices) < LEAST:
            return
        first: dict[int, int] = {}
        rows, twins = [], []
        with isolate_rng():
            for index in part.indices:
                if time.monotonic() > self.until:
                    break
                seed_all()
                row = max(tensors(train.items([index])), key=row_size, default=None)
                if row is None:
                    return
                rows.append(row)
                if first.setdefault(digest(row), index) != index:
                    twins.append((index, first[digest(row)]))
        if len(rows) < LEAST or len(twins) < self.max_repeated * len(rows):
            return
        if not are_unlikely_to_repeat(list(map(torch.Tensor.cpu, rows[:COMPARED]))):
            return
        self.warn(
            f"{len(twins)} of {len(rows)} samples of train_dataloader are the same as another one: "
            f"{len(rows) - len(twins)} different inputs",
            f"{train.where}, item {twins[0][0]} is item {twins[0][1]}",
            "the network sees far fewer samples than the dataset counts",
            "look at how the dataset makes a position of an index: a modulo or a division too many",
        )

    def _rows(self, base: Any, inside: list[int] | None, split: Split) -> list[Any]:
        """Return what is stored of a split's samples, or what its dataset returns where that is always the same."""
        row = raw_row(base)
        if row is None:
            row = self._loaded_row(split)
            inside = None
        if row is None:
            self.facts[f"{split.name}_not_compared"] = "nothing stored was found, and its samples are random"
            return []
        rows = []
        for index in range(len(split.dataset)) if inside is None else inside:
            if len(rows) % 64 == 0 and rows and time.monotonic() > self.until:
                break
            rows.append(row(index))
        return rows

    def _loaded_row(self, split: Split) -> Any:
        """Return a function to a sample's largest part as the dataset returns it, where that is always the same."""

        def row(index: int) -> Any:
            parts = list(tensors(split.dataset[index])) or [split.dataset[index]]
            return max(parts, key=row_size)

        return row if all(digest(row(index)) == digest(row(index)) for index in split.chosen(5)) else None

    def _judge_scale(self, train: Split, split: Split, own: "Part", other: "Part") -> None:
        if not own.judges_scale or not other.judges_scale:
            return
        (mean, std, error), (other_mean, other_std, other_error) = own.scale(), other.scale()
        shift = abs(mean - other_mean) - 4 * (error + other_error)
        ratio = max(std, other_std) / max(min(std, other_std), 1e-12)
        if shift > self.max_shift * max(std, other_std) or ratio > self.max_ratio:
            self.fail(
                f"inputs of train_dataloader have mean {mean:.2f} and std {std:.2f}, those of {split.name} "
                f"{other_mean:.2f} and {other_std:.2f}",
                f"{train.where} against {split.where}",
                "the network is trained on one scale and validated on another: validation looks worse than it is",
                "let all splits go through the same normalisation",
            )

    def _labels(self, split: Split, part: "Part") -> Tensor:
        """Return the labels of a split, as many as can be had, in the order of the dataset."""
        if not part.labels:
            return torch.cat(self.seen_labels) if split.stage == "train" and self.seen_labels else torch.tensor([])
        labels = torch.cat(part.labels)
        if labels.is_floating_point():
            return labels
        whole = stored_labels(split.dataset, part.indices, labels)
        return labels if whole is None else whole

    def _judge_labels(self, train: Split, held_out: list[Split], labels: dict[str, Tensor]) -> None:
        for split in (train, *held_out):
            own = labels[split.name]
            own = own[own != self.ignored]
            outside = ((own < 0) | (own >= self.classes)).nonzero().flatten()
            if len(outside) and not self.findings_about("label"):
                self.fail(
                    f"label {int(own[outside[0]])} in {split.name}, but there are {self.classes} classes "
                    f"(0..{self.classes - 1}); {len(outside)} of {len(own)} labels are outside",
                    split.where,
                    "the criterion looks for an output of that number: an IndexError, or a crash of the GPU",
                    "let labels run from 0 to the number of classes - 1, or give the network more outputs",
                )
            if len(own) >= 20 and len(own.unique()) == 1 and self.classes > 1:
                report = self.warn if self.classes == 2 else self.fail  # rare events may be that rare
                report(
                    f"all {len(own)} labels of {split.name} are {own[0].item():g}",
                    split.where,
                    "with one class there is nothing to tell apart: any constant answer is right",
                    "split the data at random or by class, and look at how labels are read",
                )
            unseen = self._unseen(labels[train.name], own)
            if split is not train and unseen and self.classes > 2:
                named = ", ".join(map(str, unseen))
                self.fail(
                    f"class {named} is in {split.name} and not in the training set",
                    f"{split.where} against {train.where}",
                    "the network cannot learn what it never sees: the data were cut where they are sorted by class",
                    "split at random, or by class (stratified)",
                )

    def _unseen(self, own: Tensor, other: Tensor) -> list[int]:
        """Return the classes that are common in `other` and missing in `own`."""
        if len(own) < 20 * (self.classes or 1) or not len(other):
            return []
        common = [label for label, count in Counter(other.tolist()).items() if count >= 0.05 * len(other)]
        return [int(label) for label in sorted(set(common) - set(own.tolist()))]

    def _judge_order(self, train: Split, held_out: list[Split], part: "Part") -> None:
        shuffled = train.shuffled()
        sampler = type(train.loader.sampler).__name__
        if train.loader.batch_sampler is not None and type(train.loader.batch_sampler) is not BatchSampler:
            sampler = type(train.loader.batch_sampler).__name__
        self.facts["train_order"] = f"{'shuffled' if shuffled else 'in order'} ({sampler})"
        others = [split.name for split in held_out if split.shuffled()]
        if shuffled is False and others:
            self.fail(
                f"the training set is read in order ({sampler}), and {', '.join(others)} is shuffled",
                f"{train.name}: sampler {sampler} over {type(train.dataset).__name__}",
                "it looks as if shuffle=True had been given to the wrong loader",
                "shuffle=True for the training loader, shuffle=False for the others",
            )
        labels = torch.cat(part.labels) if part.labels else torch.cat(self.seen_labels or [torch.tensor([])])
        in_order = shuffled is False or (shuffled is None and len(labels) > 0)
        if in_order and len(labels) and grouped(labels):
            self.fail(
                f"the training set is read in order ({sampler}), and it is sorted by class",
                f"{train.name}: sampler {sampler} over {type(train.dataset).__name__}",
                "every batch holds one class or two: the network forgets the others, and the loss swings",
                "shuffle=True in train_dataloader",
            )

    def _judge_fit(self, split: Split, own: "Part", other: "Part") -> None:
        """Compare what labels mean in two splits."""
        train, held = own.sample(), other.sample()
        if train is None or held is None or max(train.labels.max(), held.labels.max()) >= self.classes:
            return
        if self._unseen(train.labels, held.labels):
            return
        within = confusion(train.half(0), train.half(1), self.classes)
        across = confusion(train, held, self.classes)
        within_held = confusion(held.half(0), held.half(1), self.classes)
        chance = 2 / self.classes if self.classes > 3 else 0.8
        self.facts[f"centroids_{split.name}"] = [round(accuracy(table), 3) for table in (within, across, within_held)]
        moved = renamed(within, across, self.min_recall)
        if moved:
            shown = ", ".join(f"{label} looks like {seen}" for label, seen in list(moved.items())[:4])
            self.fail(
                f"labels of {split.name} mean other classes than in training: {shown}"
                f"{', ...' if len(moved) > 4 else ''} ({len(moved)} of {self.classes} classes)",
                f"{split.where}: by the nearest class centre of the training inputs, {accuracy(across):.0%} of its "
                f"labels fit; {accuracy(within):.0%} do within the training set",
                "metrics there are wrong however good the network is",
                "use one mapping from names to labels in all splits, and look for an offset in how labels are read",
            )
        elif accuracy(within) > max(chance, self.min_recall) and accuracy(across) < accuracy(within) / 3:
            # Inputs that lie as near to the class centres are of the same kind: then it is the labels.
            alike = nearness(train, held) < 1.2 * nearness(train.half(0), train.half(1))
            report = self.fail if alike else self.warn
            report(
                f"labels of {split.name} do not fit its inputs as they do in training: {accuracy(across):.0%} of them "
                f"lie nearest to their class, {accuracy(within):.0%} in the training set",
                split.where,
                "labels of that split are shuffled" + ("" if alike else ", or its data are of another kind"),
                "look at some of its samples with their labels",
            )
        elif accuracy(within) > max(chance, self.min_recall) and accuracy(across) < self.min_alike * accuracy(within):
            self.warn(
                f"inputs of {split.name} look unlike those of training: {accuracy(across):.0%} of them lie nearest to "
                f"the centre of their class, {accuracy(within):.0%} in the training set",
                f"{split.where}: height and width, orientation, colours or crops of its inputs",
                "the network is validated on another kind of input than it is trained on",
                "let both splits go through the same transforms, but for random ones",
            )
        elif accuracy(within_held) > max(chance, self.min_recall) and accuracy(within) < accuracy(within_held) / 3:
            self.fail(
                f"training labels have nothing to do with training inputs: {accuracy(within):.0%} lie nearest to their "
                f"class, {accuracy(within_held):.0%} do in {split.name}",
                "train_dataloader",
                "they can be learned by heart and no better",
                "look for inputs and labels that were shuffled, sorted or filtered apart from one another",
            )

    def _judge_normalisation(self, train: list[Split]) -> None:
        found = self.first_layer
        if found.kind == "norm" or not found.count:
            return
        mean, std = found.mean, found.std
        self.facts["inputs"] = {"mean": mean, "std": std, "min": found.low, "max": found.high}
        place = f"train_dataloader, {self.input_place}, as it enters {found.path}"
        numbers = f"mean {mean:.3g} and std {std:.3g} (from {found.low:.3g} to {found.high:.3g})"
        same = found.lowest / found.count if found.low else 0.0  # zeros may be many: sparse inputs
        if std < self.min_std or same > self.max_same:
            self.fail(
                f"inputs hardly differ: {same:.1%} of all values are {found.low:.3g}; {numbers}",
                place,
                "there is nothing to tell samples apart by",
                "look for a division too many, an integer division, or a factor 0 on the way from the file",
            )
            return
        fault = scaling(mean, std, found.low, found.high, self.claim, self.max_std)
        if fault is not None:
            severe, text = fault
            expected = "" if self.claim is None else "; the config claims to bring them to mean 0 and std 1"
            report = self.fail if severe else self.warn
            report(
                f"inputs have {numbers}{expected}: {text}",
                place,
                "weights and learning rates are made for inputs around 0 with a spread around 1",
                "normalise once, with mean and std of the training set",
            )

    def _judge_losses(self) -> None:
        if not self.losses:
            return
        data = "the data have findings of their own, above" if self.findings else "the data show no reason"
        place = f"training_step, batches 0 to {len(self.losses) - 1}"
        wrong = [index for index, loss in enumerate(self.losses) if not math.isfinite(loss)]
        if wrong:
            self.fail(
                f"the loss is {self.losses[wrong[0]]} in {len(wrong)} of {len(self.losses)} batches",
                f"training_step, batch {wrong[0]}",
                f"after that step every weight is NaN; {data}",
                "python train.py +debug=anomaly names the operation that made it",
            )
        elif not any(self.losses):
            self.fail(
                f"the loss is exactly 0 in all {len(self.losses)} batches",
                place,
                f"labels are constant, or outputs and labels don't reach the criterion; {data}",
                "python train.py +debug=trace",
            )

    def _described(self) -> list[str]:
        inputs = self.facts.get("inputs")
        parts = [] if inputs is None else [f"inputs: mean {inputs['mean']:.2f}, std {inputs['std']:.2f}"]
        parts += [] if self.classes is None else [f"{self.classes} classes"]
        parts += [f"training set {self.facts['train_order']}"] if "train_order" in self.facts else []
        shared = [value for key, value in self.facts.items() if key.startswith("shared_with")]
        parts += [f"{sum(shared) or 'no'} samples in two splits"] if shared else []
        return [*parts, f"not looked at: {self.facts['not_looked_at']}"] if "not_looked_at" in self.facts else parts


class Part:
    """Samples of a split, as the network gets them."""

    def __init__(self) -> None:
        self.indices: list[int] = []
        self.inputs: list[Tensor] = []
        self.labels: list[Tensor] = []

    @property
    def judges_scale(self) -> bool:
        return len(self.indices) >= 20 and self.inputs[0].is_floating_point() and self.inputs[0].ndim > 1

    def scale(self) -> tuple[float, float, float]:
        """Return mean and standard deviation of the inputs, and the standard error of the mean."""
        inputs = torch.cat(self.inputs).float()
        return float(inputs.mean()), float(inputs.std()), float(inputs.flatten(1).mean(1).std() / len(inputs) ** 0.5)

    def sample(self) -> Sample | None:
        """Return what the labels can be judged by, or None where that is too little."""
        if not self.labels or not self.judges_scale or len(self.indices) < LEAST:
            return None
        inputs, labels = torch.cat(self.inputs), torch.cat(self.labels)
        fits = labels.min() >= 0 and bool(inputs.isfinite().all())
        return sample_of(inputs, labels) if fits else None


def form(leaf: Tensor) -> str:
    return f"{'x'.join(map(str, leaf.shape)) or 'scalar'} {str(leaf.dtype).removeprefix('torch.')}"


def size(split: Split) -> int | str:
    try:
        return len(split.dataset)
    except TypeError:
        return "of unknown number"


def input_of(batch: Any) -> str | None:
    """Return the place of the largest tensor of a batch that is no index: the network's input."""
    sizes = {
        place: leaf.numel()
        for place, leaf in leaves(batch).items()
        if leaf.is_floating_point() or leaf.dtype == torch.uint8
    }
    return max(sizes, key=sizes.get, default=None)


def label_classes(call: CriterionCall, leaf: Tensor) -> int | None:
    """Return how many classes there are if `leaf` holds the labels that a criterion was called with, else None."""
    target = call.target
    if call.num_classes is not None:
        same = leaf.numel() == target.numel() and torch.equal(leaf.flatten().long(), target.flatten().long())
        return call.num_classes if same and not leaf.is_floating_point() else None
    if leaf.ndim != 1 or len(leaf) != len(target):
        return None
    if call.name.startswith("binary") and target.numel() == len(leaf):
        binary = bool(((target == 0) | (target == 1)).all())
        return 2 if binary and torch.equal(leaf.float(), target.flatten().float()) else None
    one_hot = target.ndim == 2 and target.shape == call.input.shape and not leaf.is_floating_point()
    one_hot = one_hot and target.shape[1] > 1 and torch.equal(target.argmax(1), leaf.long())
    return target.shape[1] if one_hot and bool((target.sum(1) == 1).all()) else None


def grouped(labels: Tensor) -> bool:
    """Whether labels come class by class."""
    classes = len(labels.unique())
    runs = 1 + int((labels[1:] != labels[:-1]).sum())
    return classes > 1 and len(labels) > 4 * classes and runs <= 1.5 * classes
