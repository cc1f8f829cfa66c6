"""The loaders of a run and their samples: what the probes of data stand on."""

import math
import re
import time
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor

from training_checklist.engines.batches import as_real, inside, leaves, with_part
from training_checklist.engines.drawn_indices import content_of
from training_checklist.engines.own_code import pass_on
from training_checklist.engines.splits import CHUNK, Split, splits
from training_checklist.finding import Finding, Place
from training_checklist.lab.code_reads import calls_in_code, loaded
from training_checklist.lab.roles import Roles
from training_checklist.lab.seen import Seen
from training_checklist.lab.shared import Subject, once
from training_checklist.lightning import LightningModule, Trainer, is_overridden
from training_checklist.probe import CannotJudge

# When probes of data are asked, as their `steps`: before anything is read, when a fit is over, when it has raised.
UNREAD, OVER, RAISED = "on_train_start", "on_fit_end", "on_exception"
LEAST = 50  # samples by which a split is judged: the standard error of a mean is then 1 / 7 of a deviation
TOGETHER = 8  # samples that are loaded together and alone: a collate function mixes all of them, or none

ASKS = re.compile(r"(?<!super\(\))(?<!\bself)\.test_dataloader\(\)")


class Data(Subject):
    """The data of a run.

    What is derived of it is a function `@once` of it, and of one of its splits where it is of that.

    Args:
        loaders: of training.
        number: of samples of each split to look at beyond the batches of the run, at most.
        seconds: after which no more samples are loaded.
        claim: mean and std that the project names for pixels of 0..1.
        findings: of the item, so far.

    Attributes:
        until: when that is, by `time.monotonic()`.
        error: what the run has raised.
        seen: what the batches of the run have shown.
        main: of loaders of training that make one batch together, the one that has the loss's targets, once a step has
            shown it.
        given: loaders that `trainer.test` alone was given, once it is called.
        earlier: training sets of fits whose weights this one goes on with.
        roles: of the tensors of a batch.
    """

    roles: Roles

    def __init__(
        self,
        trainer: Trainer,
        pl_module: LightningModule,
        loaders: list[Split],
        number: int,
        seconds: float,
        claim: tuple[float, float] | None,
        findings: list[Finding],
    ) -> None:
        self.trainer, self.pl_module, self.loaders = trainer, pl_module, loaders
        self.number, self.seconds, self.claim, self.findings = number, seconds, claim, findings
        self.until = time.monotonic() + seconds
        self.error: Exception | None = None
        self.seen = Seen()
        self.main: Split | None = None
        self.given: list[Split] = []
        self.earlier: list[Split] = []

    @property
    def has_roles(self) -> bool:
        return "roles" in vars(self)

    @property
    def source(self) -> Any:
        """What makes the loaders."""
        return self.pl_module if self.trainer.datamodule is None else self.trainer.datamodule

    @property
    def train(self) -> Split:
        if self.main is not None:
            return self.main
        if len(self.loaders) != 1:
            raise CannotJudge(
                f"training has {len(self.loaders)} loaders, and the loss has targets of none or of several"
            )
        return self.loaders[0]

    @property
    def alike(self) -> list[Split]:
        """Those whose batches have the same places as the batches of `train`."""
        return [self.train, *self.held_out]

    def choose(self, roles: Roles) -> Roles:
        """Choose the one loader that the loss has its targets of; return what the tensors of its batches are for."""
        owners = [split for split in self.loaders if inside(roles.target, split.prefix) is not None]
        if len(owners) != 1:
            return roles
        [self.main] = owners
        self.seen.narrow(self.main.path, self.main.prefix)
        return roles.within(self.main.prefix, self.seen.entrances)

    def whole(self, batch: Any) -> Any:
        """Return a batch for training_step of one of `train`: with those of the other loaders, if there are some."""
        return batch if self.main is None else with_part(self.seen.first, self.main.path, batch)

    def replays(self) -> None:
        """Say whether the training step can be run again.

        Raises:
            CannotJudge: it cannot.
        """
        if not self.pl_module.automatic_optimization or self.trainer.world_size > 1:
            raise CannotJudge("a step that drives its optimizers, or meets other ranks, is not run again")

    @property
    def held_out(self) -> list[Split]:
        return [*validated(self), *(self.given or tested(self)[0])]

    @property
    def splits(self) -> list[Split]:
        return [*self.loaders, *self.held_out]


@once
def validated(data: Data) -> list[Split]:
    return splits("val", data.trainer.val_dataloaders)


@once
def tested(data: Data) -> tuple[list[Split], str]:
    """Return the splits that testing would read, and why it could not: the run itself does not need it."""
    if not is_overridden("test_dataloader", data.source):
        return [], ""
    if not is_overridden("test_step", data.pl_module) and not is_asked_for_by_code():
        return [], ""
    try:
        given_before(data)
        pass_on(data.source.setup, "test")
        return splits("test", pass_on(data.source.test_dataloader)), ""
    except Exception as error:
        return [], f"{type(error).__name__}: {error}"


@once
def given_before(data: Data) -> str | None:
    """Return a digest of what train_dataloader gives, as it is before testing is set up: it may depend on the epoch."""
    own = is_overridden("train_dataloader", data.source)
    now = splits("train", pass_on(data.source.train_dataloader)) if own else []
    return content_of(now[0].dataset) if len(now) == 1 else None


def tests_by_itself() -> bool:
    """Whether the project's code takes the test samples itself, and leaves no test to the Trainer."""
    return is_asked_for_by_code() and next(calls_in_code("test"), None) is None


def is_asked_for_by_code() -> bool:
    """Whether the project's code asks a datamodule for the test samples itself, as no datamodule does of itself."""
    texts = (path.read_text(encoding="utf-8", errors="replace") for path in loaded() if path.is_file())
    return any(map(ASKS.search, texts))


def by_index(split: Split, least: int = 1) -> Split:
    """Return a split whose samples can be had one by one.

    Raises:
        CannotJudge: they cannot, or there are too few of them.
    """
    if not split.indexable:
        raise CannotJudge(f"{split.name} gives no single samples by their index")
    if split.samples < least:
        raise CannotJudge(f"{split.name} has {split.samples} samples, fewer than {least}")
    return split


def batches(split: Split) -> int:
    """Return how many batches an epoch has; at least one of a stream."""
    return pass_on(len, split.loader) if split.indexable else int(split.samples != 0)


@dataclass
class Order:
    """The indices that a sampler draws in an epoch, or as many as were looked at.

    Args:
        sampler: name of its class.
        drawn: indices in all.
        distinct: different ones.
        new: different ones in the second half that were not in the first.
        ascending: whether each is at least as large as the one before.
        plain: whether a sampler of single samples makes it: others may draw the same sample for several tasks.
    """

    sampler: str
    drawn: int
    distinct: int
    new: int
    ascending: bool
    plain: bool
    place: Place


@once
def order_of(data: Data, split: Split) -> Order:
    drawn = split.order()
    if drawn is None:
        raise CannotJudge(f"{split.name} draws no indices")
    first, distinct = set(drawn[: len(drawn) // 2]), set(drawn)
    ascending = all(sooner <= later for sooner, later in pairwise(drawn))
    place = split.place.beside(note=f"sampler {split.sampler} over {split.place.note}")
    plain = split.loader.batch_size is not None
    return Order(split.sampler, len(drawn), len(distinct), len(distinct - first), ascending, plain, place)


def in_order(data: Data) -> bool:
    """Whether training reads its samples in the order of the dataset, batch after batch."""
    if data.train.indexable and batches(data.train) == 1:  # of all samples, whose order is without effect
        return False
    return order_of(data, data.train).ascending if data.train.order() is not None else not data.train.indexable


@dataclass
class Part:
    """Samples of a split.

    Args:
        indices: ascending.
        chunks: of each place in the batch, one for each time that some were loaded.
        values: (N, ...) of each place that has one entry for each sample, and one shape.
        rows: of each place that has one entry for each sample, of whatever shape.
    """

    split: Split
    indices: list[int] = field(default_factory=list)
    chunks: dict[str, list[Tensor]] = field(default_factory=dict)
    values: dict[str, Tensor] = field(default_factory=dict)
    rows: dict[str, list[Tensor]] = field(default_factory=dict)

    def of(self, place: str | None) -> Tensor | None:
        return self.values.get(place) if place is not None else None


@once
def part(data: Data, split: Split) -> Part:
    """Load some samples from all over a split, in half of the time that is left."""
    until = time.monotonic() + max(data.until - time.monotonic(), 0) / 2
    return load(split, split.chosen(data.number) if split.indexable else [], data.roles, data.trainer, until)


def load(split: Split, indices: list[int], roles: Roles, trainer: Trainer, until: float) -> Part:
    """Load samples until the clock shows `until`, those that there is time for from all over `indices`."""
    part, numbers = Part(split), []
    chunks = math.ceil(len(indices) / CHUNK)
    spread = [index for start in range(chunks) for index in indices[start::chunks]]
    for chunk, batch in split.fetch(spread, trainer, until) if split.indexable else ():
        found = leaves(batch)
        part.indices += chunk
        numbers.append(len(chunk))
        for place in roles.places:
            if place in found:
                part.chunks.setdefault(place, []).append(as_real(found[place].detach().cpu()))
    for place, chunks in part.chunks.items():
        one_each = [len(chunk) if chunk.ndim else None for chunk in chunks] == numbers
        if one_each:
            part.rows[place] = [row for chunk in chunks for row in chunk]
        if one_each and len({chunk.shape[1:] for chunk in chunks}) == 1:
            part.values[place] = torch.cat(chunks)
    order = torch.tensor(part.indices).argsort()
    part.rows = {place: [rows[index] for index in order.tolist()] for place, rows in part.rows.items()}
    part.indices = sorted(part.indices)
    part.values = {place: values[order] for place, values in part.values.items()}
    return part


def differing(one: Tensor, two: Tensor) -> Tensor:
    """Return for each sample whether it differs by more than another order of the same additions makes."""
    return ~torch.isclose(one, two, rtol=1e-4, atol=1e-5, equal_nan=True).reshape(len(one), -1).all(1)


def is_within(sample: Tensor, padded: Tensor) -> bool:
    """Whether a sample stands at the beginning or the end of one that may be padded."""
    if sample.ndim != padded.ndim or any(own > other for own, other in zip(sample.shape, padded.shape, strict=True)):
        return False
    first = tuple(slice(0, size) for size in sample.shape)
    last = tuple(slice(other - own, other) for own, other in zip(sample.shape, padded.shape, strict=True))
    return any(not bool(differing(sample[None], padded[where][None]).any()) for where in (first, last))
