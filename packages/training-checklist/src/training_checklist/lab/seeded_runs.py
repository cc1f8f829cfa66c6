"""What two runs with one seed came to, and a run that was resumed from a checkpoint."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from hydra.core.hydra_config import HydraConfig
from torch.utils.data import DataLoader

from training_checklist.engines.fingerprints import digest_of
from training_checklist.engines.first_difference import close, first_difference
from training_checklist.engines.held import kept
from training_checklist.engines.random_state import GENERATORS
from training_checklist.engines.rows import Row
from training_checklist.finding import NOWHERE, REMARK, Finding, Place
from training_checklist.lab.shared import Subject, of_the_project, once
from training_checklist.lightning import LightningModule, Trainer, isolate_rng
from training_checklist.probe import CannotJudge
from training_checklist.starting.check import FOLDER

RECORDS = (".yaml", ".yml", ".json")  # that a run may keep its config in
BY_CHANCE = 1_000_000  # a smaller number may stand in a file for anything else; one of 32 bits is smaller once in 4295
EVAL_MODE = "number of modules in eval mode"
LEFT_OUT = "buffer"  # begins the name of one that is persistent=False: who writes that wants it in no checkpoint


KEEPING = {"enable_checkpointing": True}  # of an example's Trainer


@dataclass
class Recording:
    """What one run was, step by step.

    Args:
        seed: of torch when training began.
        is_printed: whether it is the one that seed_everything was given, and has printed.
        rows: of everything but operations, in the order in which it came to be.
        operations: rows of them.
        drawn: digests of what the samplers drew for each batch, by loader; none for iterable data.
        steady: by loader, whether its dataset gives the same for the same position after the same seed; None: unknown.
        generators: that the training set holds: "Digits.rng (Generator)".
        listed: file and line of each line of the project that has listed a folder.
        unseeded: likewise, that has made a generator without a seed.
        unordered: why this device may add up in another order each time; "" where it does not.
    """

    seed: int = 0
    is_printed: bool = False
    rows: list[Row] = field(default_factory=list)
    operations: list[Row] = field(default_factory=list)
    drawn: dict[str, list[str]] = field(default_factory=dict)
    steady: dict[str, bool | None] = field(default_factory=dict)
    generators: list[str] = field(default_factory=list)
    unordered: str = ""
    listed: list[tuple[str, int]] = field(default_factory=list)
    unseeded: list[tuple[str, int]] = field(default_factory=list)


def record_of(seed: int) -> str:
    """Return the file, in the run's directory, of a config or the like in which its seed stands; "" of none."""
    known = seed >= BY_CHANCE and HydraConfig.initialized()
    folder = Path(HydraConfig.get().runtime.output_dir) if known else None
    paths = sorted(folder.rglob("*")) if folder is not None else []
    for path in (each for each in paths if folder / FOLDER not in each.parents):  # where it stands in our own
        if path.suffix in RECORDS and re.search(rf"\b{seed}\b", path.read_text(encoding="utf-8", errors="replace")):
            return path.relative_to(folder).as_posix()
    return ""


@dataclass
class TwoRuns:
    """The same command twice.

    Args:
        seeds: keys of the config that are named seed and hold none, with their places; else the one that is called so.
        hooks: of the project that run at a point, by the kind of the row that follows it.
        rebuilt: whether the second run has built its own network.
        salted: lines of the project's code that come out differently in each process, or on another machine.
    """

    one: Recording
    two: Recording
    seeds: list[Place] = field(default_factory=list)
    hooks: dict[str, Place] = field(default_factory=dict)
    rebuilt: bool = True
    salted: list[Place] = field(default_factory=list)

    def at(self, place: Place, why: str) -> tuple[Place, str]:
        """Return where the runs part and why that is, with the lines that may be to blame."""
        if not self.salted:
            return place, why
        lines = ", ".join(f"{each.file}:{each.line}" for each in self.salted[1:4])
        others = f", and {lines}" if lines else ""
        line = self.salted[0]
        why = (
            "in the second run hash() of a text and the order of a set are others, as in each process, a generator "
            "without a seed draws anew, and folders list their files backwards, as another machine may: look at this "
            f"line{others}"
        )
        return place.beside(file=line.file, line=line.line, source=line.source), why

    @cached_property
    def parted(self) -> tuple[Row, Row] | None:
        """The first row that the runs do not have in common, as each has it."""
        found = first_difference(self.one.rows, self.two.rows, Row.equals)
        if found is None:
            return None
        ended = Row("end of training", 0, "", "")
        return found.one or ended, found.two or ended

    def kind(self) -> str:
        """What the runs differ in first, "" where they are equal."""
        return "" if self.parted is None else self.parted[0].kind

    def numbers(self) -> str:
        """How far apart the runs are there."""
        one, two = self.parted or (Row("", 0, "", ""),) * 2
        # Six digits are what a reader sees: two norms that agree in them look like one.
        first, second = f"{one.norm:.6g}", f"{two.norm:.6g}"
        return f"one norm of {first}" if first == second else f"norm {first} and {second}"

    def drawn_alike(self, hook: str) -> bool | None:
        """Whether the samplers of the loaders that a hook makes drew the same positions; None: not known.

        Of a batch of training, up to that one: later ones may be others for what has come of it.
        """
        pairs = [
            (drawn, self.two.drawn.get(name, [])) for name, drawn in self.one.drawn.items() if name.startswith(hook)
        ]
        until = self.parted[0].step + 1 if self.kind() == "batch" else None
        # Workers draw ahead, as far as they come.
        equal = [one[: len(two)][:until] == two[: len(one)][:until] for one, two in pairs if one and two]
        return all(equal) if equal else None

    def steady(self, hook: str) -> bool | None:
        """Whether the datasets give the same for the same position after the same seed; None: not known."""
        known = [each for name, each in self.one.steady.items() if name.startswith(hook)]
        return None if None in known or not known else all(known)


def made(*digests: str, kind: str = "initial weight", **facts: Any) -> Recording:
    """Return a short recording, for examples."""
    return Recording(
        rows=[Row(kind, 0, f"tensor {index}", digest, 1.0) for index, digest in enumerate(digests)], **facts
    )


@dataclass
class WorkerDraws:
    """What two workers make of the same samples, again and again, in two epochs.

    Args:
        first: of each worker in one epoch, as fingerprints.
        second: in another one.
        persistent: whether the workers live through all epochs.
    """

    first: tuple[list[str], list[str]]
    second: tuple[list[str], list[str]]
    workers: int
    persistent: bool
    place: Place


@dataclass
class SavedCheckpoints:
    """What the run's checkpoints are good for.

    Args:
        keepers: how many ModelCheckpoints there are.
        weights_only: whether all of them leave out what training goes on from.
        whole: whether another file beside theirs has it.
        keys: of the config that say so.
        resumes: whether the project gives `fit` a ckpt_path, be it None.
    """

    keepers: int
    weights_only: bool = False
    whole: bool = False
    keys: list[Place] = field(default_factory=list)
    resumes: bool = True

    def matters(self, why: str) -> dict[str, str]:
        """Return what a `Hit` says beside its probe, where only a run that is resumed is harmed, and none may be."""
        told = {"why": f"{why}; this script gives fit no ckpt_path, and resumes nothing", "severity": REMARK}
        return {} if self.resumes else told


@dataclass
class ResumedRun:
    """A checkpoint that training was resumed from.

    Args:
        saved: what there was when it was saved: digests by name.
        found: what there was when training went on; None where it did not.
        error: what the attempt came to, where the checkpoint is to blame.
        pickled: the class that torch.load refuses to unpickle, "" where there is none.
        objects: where objects of classes are in the checkpoint, with the class.
        keeper: the library's class that puts all of them there, "" where the project has a part in it.
        obstacle: why nothing was resumed.
    """

    saved: dict[str, Any] = field(default_factory=dict)
    found: dict[str, Any] | None = None
    error: Finding | None = None
    pickled: str = ""
    objects: list[tuple[str, str]] = field(default_factory=list)
    keeper: str = ""
    obstacle: str = ""


@dataclass
class FurtherStep:
    """A training step after the checkpoint.

    Args:
        rates: learning rates.
        weights: parameters and buffers when it began.
        attributes: plain values that modules keep beside them, by their path.
        strides: how the weights lie in memory: convolutions add up in the order of that.
        loss: None where it returned none.
    """

    rates: list[float]
    weights: list[Row]
    attributes: dict[str, Any]
    strides: dict[str, Any] = field(default_factory=dict)
    loss: float | None = None


@dataclass
class Parting:
    """Where a resumed run leaves the way of the other.

    Args:
        step: its number.
        what: is not the same.
        lost: attributes that were not the same when the step began, each with both values.
    """

    step: int
    what: str
    lost: list[str]


@dataclass
class FurtherSteps:
    """The steps that follow a checkpoint, without interruption and resumed, with the same batches and random numbers.

    Args:
        first: number of the first one.
        place: of the project's training step.
        obstacle: why they could not be recorded or compared.
    """

    steps: list[FurtherStep] = field(default_factory=list)
    again: list[FurtherStep] = field(default_factory=list)
    first: int = 0
    place: Place = NOWHERE
    obstacle: str = ""

    def parting(self) -> Parting | None:
        """Return where the two part, None where they don't.

        Raises:
            CannotJudge: they could not have been the same.
        """
        if self.obstacle or not self.steps or not self.again:
            raise CannotJudge(self.obstacle or "no step followed the checkpoint")
        for number, (one, two) in enumerate(zip(self.steps, self.again, strict=False)):
            if one.rates != two.rates:
                raise CannotJudge("the checkpoint was saved before a schedule that waits for a metric had seen it")
            if one.strides != two.strides:
                raise CannotJudge("the resumed run's weights lie in memory in another order, and sums come out apart")
            moved = first_difference(one.weights, two.weights, Row.equals)
            if moved is None and (None in (one.loss, two.loss) or close(0.0)(one.loss, two.loss)):
                continue
            at = max(number - 1, 0) if moved is not None else number
            return Parting(self.first + at, differs(one, two, moved), lost(self.steps[at], self.again[at]))
        return None


def differs(one: FurtherStep, two: FurtherStep, moved: Any) -> str:
    if moved is not None:
        return f"{(moved.one or moved.two).name} differs after it"
    return f"its loss is {two.loss:.9g} and not {one.loss:.9g}"


def lost(one: FurtherStep, two: FurtherStep) -> list[str]:
    return [
        f"{name} is {value} without interruption and {two.attributes[name]} here"
        for name, value in one.attributes.items()
        if name in two.attributes and value != two.attributes[name]
    ]


class SeededRuns(Subject):
    """The run, the same command once more, and a run that was resumed from a checkpoint of it.

    Args:
        loaders: of training, by their names.
        untrained: a copy of the network from before training; None where it cannot be copied.
        runs: the two runs, one beside the other.
        saved: what checkpoints are kept.
        resumed: the checkpoint that the third run goes on from.
        steps: that follow it.
    """

    trainer: Trainer
    loaders: list[tuple[str, DataLoader]]
    untrained: LightningModule | None
    runs: TwoRuns
    saved: SavedCheckpoints
    resumed: ResumedRun
    steps: FurtherSteps

    @property
    def parted(self) -> TwoRuns | None:
        """The two runs where they have one seed and differ, else None."""
        return self.runs if self.runs.parted is not None and self.runs.one.seed == self.runs.two.seed else None


# Even a flip of one image in two, in 4 samples drawn 32 times, is alike in two workers once in 2 ** 128.
SAMPLES, DRAWS = 4, 32


@once
def worker_draws(seeded: SeededRuns) -> list[WorkerDraws]:
    """Return what two workers of each loader of training draw.

    Raises:
        CannotJudge: nobody can tell.
    """
    found = []
    for name, loader in seeded.loaders:
        if loader.num_workers < 2:
            raise CannotJudge("the training data are loaded by one process only")
        if loader.batch_sampler is None or not hasattr(loader.dataset, "__getitem__"):
            raise CannotJudge("the training data are iterable: no sample can be given to both workers")
        with of_the_project("a sample, read again,"):
            drawn = [streams(loader, seed) for seed in (1, 2)]
        if any(len(set(stream)) == 1 for stream in drawn[0]):
            raise CannotJudge("a sample is the same whenever it is read: nothing is random in the dataset")
        init = getattr(loader.worker_init_fn, "__name__", str(loader.worker_init_fn))
        note = ", ".join(held_generators(loader.dataset)) or f"worker_init_fn={init}"
        found.append(WorkerDraws(*drawn, loader.num_workers, loader.persistent_workers, Place(loader=name, note=note)))
    return found


def streams(loader: DataLoader, seed: int) -> tuple[list[str], list[str]]:
    """Return what two workers make of the same samples, again and again, as fingerprints."""
    with isolate_rng():
        samples = next(iter(loader.batch_sampler))[:SAMPLES]
        both = DataLoader(
            loader.dataset,
            batch_sampler=[samples] * (2 * DRAWS),  # in turn
            num_workers=2,
            collate_fn=loader.collate_fn,
            worker_init_fn=loader.worker_init_fn,
            multiprocessing_context=loader.multiprocessing_context,
            generator=torch.Generator().manual_seed(seed),
        )
        drawn = [digest_of(batch) for batch in both]
    return drawn[::2], drawn[1::2]


def held_generators(dataset: Any) -> Iterator[str]:
    """Yield where a dataset keeps random generators: "Digits.rng (Generator)"."""
    for path, generator in kept(dataset, type(dataset).__name__, GENERATORS):
        yield f"{path} ({type(generator).__name__})"
