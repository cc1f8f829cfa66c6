"""What the processes of one job came to: how they kept step, what they hold, and which data they read."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import combinations
from typing import Any

from training_checklist.engines.parameter_names import shown
from training_checklist.finding import NOWHERE, Place
from training_checklist.lab.shared import Subject
from training_checklist.probe import CannotJudge, Hit


@dataclass
class Apart:
    """Ranks are at different places of training.

    Args:
        rank: the one that has left the others' way.
        told: where each is.
        ended: whether one has no further batch.
        hooks: the project's code that decides.
    """

    rank: int
    told: str
    ended: bool
    hooks: Place = NOWHERE


@dataclass
class LoneCollective:
    """A rank waits in a collective that the project's code calls there alone.

    Args:
        line: that calls it.
        told: where the ranks are.
    """

    rank: int
    line: Place
    told: str


@dataclass
class SkippedStep:
    """training_step of one rank returned None.

    Args:
        others: where the other ranks are.
        step: of `training_step`.
    """

    rank: int
    steps: int
    others: str
    step: Place = NOWHERE


@dataclass
class UnusedParameters:
    """Parameters that got no gradient in a backward pass.

    Args:
        total: how many want one.
        batch: of this pass.
        step: of `training_step`.
    """

    rank: int
    names: list[str]
    total: int
    batch: int = 0
    step: Place = NOWHERE


@dataclass
class WrongCollective:
    """A collective of the network self-test ended without an error and with a wrong value."""

    rank: int
    stage: str
    what: str
    world_size: int


@dataclass
class SlowPreparation:
    """The others wait for prepare_data of one rank.

    Args:
        seconds: that they wait.
        line: that it executes.
        calls: the library's function that it waits in there.
    """

    rank: int
    seconds: float
    line: Place = NOWHERE
    calls: str = ""


@dataclass
class EndedRank:
    """The process of a rank has ended.

    Args:
        how: by what signal, or with what exit code.
        code: its exit code, None where a signal has ended it or nothing is known.
        after: the stage that it had come to.
        waiting: the rank that tells, and where it waits.
    """

    rank: int
    how: str
    after: str
    waiting: tuple[int, str] = (0, "")
    code: int | None = None


@dataclass
class MissingRank:
    """A rank has not started."""

    rank: int
    world_size: int
    waiting: tuple[int, str] = (0, "")


@dataclass
class LeftRank:
    """A rank has trained and gone on, and another one waits for it after that.

    Args:
        waiting: the rank that tells.
        line: of the project, in which it waits.
    """

    rank: int
    waiting: int
    line: Place = NOWHERE


@dataclass
class HungRank:
    """A rank is alive and does not come.

    Args:
        stage: that the others wait at.
        after: the one that it has reached.
        seconds: that they waited.
        setting: the argument that lets them wait longer.
        line: that it executes.
        calls: the library's function that it waits in there.
    """

    rank: int
    stage: str
    after: str
    seconds: float
    setting: str
    line: Place = NOWHERE
    calls: str = ""


@dataclass
class FailedCollective:
    """A collective of one rank has failed, and no rank is missing.

    Args:
        after: the stage that it had come to.
        error: what the backend said.
        others: where the other ranks are.
        tested: whether the network self-test had passed.
        line: that called it.
    """

    rank: int
    after: str
    error: str
    world_size: int
    others: str = ""
    tested: bool = True
    line: Place = NOWHERE


@dataclass
class Agreement:
    """What of all ranks should be the same to the last bit, as one stage of training left it.

    Args:
        kind: "parameters" or "gradients".
        total: how many were compared.
        distances: of those whose bits differ: from rank 0's, relative to the largest entry, in units of the rounding
            of their dtype (1.2e-7 for float32).
        stage: before which they came to differ.
        hooks: of the project that run before it.
        gradients_equal: whether the gradients were, before the optimizer's step that led here; None: there was none.
        obstacle: why nothing could be compared.
    """

    kind: str
    total: int = 0
    distances: dict[str, float] = field(default_factory=dict)
    world_size: int = 2
    stage: str = ""
    hooks: Place = NOWHERE
    gradients_equal: bool | None = None
    obstacle: str = ""

    def hit(self, limit: float, what: str) -> Iterator[Hit]:
        """Yield a hit where some are farther apart than that; `what` begins with their number.

        Raises:
            CannotJudge: nothing could be compared.
        """
        if self.obstacle and not self.distances:
            raise CannotJudge(self.obstacle)
        names = [name for name, distance in self.distances.items() if not distance <= limit]
        names = sorted(names, key=lambda name: -self.distances[name])
        if names:
            before = "; their gradients were the same before the optimizer's step" if self.gradients_equal else ""
            note = "; ".join(part for part in (self.hooks.note, f"changed before {self.stage}") if part)
            yield Hit(
                f"{what.format(f'{len(names)} of {self.total}')}: {shown(names)}; in the units of their rounding by "
                f"{self.distances[names[0]]:.3g}{before}",
                self.hooks.beside(rank=f"0 to {self.world_size - 1}", parameter=shown(names), note=note),
            )


@dataclass
class MonitoredValue:
    """A logged value by which epochs are chosen, on each rank.

    Args:
        watcher: the callback or schedule that monitors it.
    """

    name: str
    watcher: str
    values: list[float]


@dataclass
class Loader:
    """One training DataLoader of one rank.

    Args:
        batches: how many it has in an epoch, or None.
        samples: length of its dataset, or None.
        content: of some samples at fixed positions, or None where they could not be read.
        whole: whether its sampler goes through the whole dataset once an epoch.
        splits: whether its sampler is one that gives each rank samples of its own.
        drawn: what its sampler drew in the first epoch, in order: positions in the dataset, or other keys.
        first: content of the first of these: a dataset may have samples of each rank's own under one key.
    """

    batches: int | None = None
    samples: int | None = None
    content: str | None = None
    whole: bool = False
    splits: bool = False
    dataset: str = "Dataset"
    sampler: str = "RandomSampler"
    drawn: list[Any] = field(default_factory=list)
    first: str | None = None


@dataclass
class Shares:
    """What each rank reads.

    Args:
        loaders: of each rank.
        batches: digests of each rank's batches of the first epoch, none before it is over.
        sampler_off: whether trainer.use_distributed_sampler=false.
    """

    loaders: list[list[Loader]]
    batches: list[list[str]] = field(default_factory=list)
    sampler_off: bool = False

    def of_one_dataset(self) -> Iterator[tuple[int, int, Loader, Loader]]:
        """Yield two ranks, and loaders of theirs that read from the same dataset."""
        for one, two in combinations(range(self.world_size), 2):
            for loader, other in zip(self.loaders[one], self.loaders[two], strict=False):
                if loader.content is not None and loader.content == other.content:
                    yield one, two, loader, other

    @property
    def world_size(self) -> int:
        return len(self.loaders)

    def where(self, ranks: str) -> Place:
        """Return the place of the data."""
        loader = self.loaders[0][0] if self.loaders[0] else None
        if loader is None:
            return Place(rank=ranks, loader="train_dataloader")
        note = loader.dataset if loader.samples is None else f"{loader.sampler} over {loader.dataset}"
        off = {"key": "trainer.use_distributed_sampler", "value": "false"} if self.sampler_off else {}
        return Place(rank=ranks, loader="train_dataloader", note=note, **off)


@dataclass
class OneProcess:
    """The first step of several ranks beside the same one in one process.

    Args:
        losses: of the ranks.
        alone: that each rank's batch has in one process.
        together: that of all batches together.
        off: how far the averaged gradient's direction is from that of one process: of the mean over the ranks' batches,
            or of all samples in one batch, whichever is nearer.
        obstacle: why this tells nothing, "" where it does.
        place: of `training_step`.
    """

    losses: list[float]
    alone: list[float]
    together: float
    off: float
    obstacle: str = ""
    place: Place = NOWHERE


class Ranks(Subject):
    """What the ranks of a run report.

    Args:
        end: what has ended the training of all, None where nothing has.
        batch: in which that was, None before the first one.
        monitored: each logged value that something looks at.
        unused: parameters of this rank that a backward pass has left out.
    """

    end: Any
    batch: int | None
    shares: Shares
    weights: Agreement
    gradients: Agreement
    monitored: list[MonitoredValue]
    unused: UnusedParameters
    one_process: OneProcess
