"""What all experiments share: a Lightning callback that shapes a run, records evidence, and has rules judge it."""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import cached_property, partial, wraps
from pathlib import Path
from typing import Any, ClassVar, NoReturn

import torch
from hydra.utils import instantiate
from omegaconf import DictConfig
from torch import Tensor
from torch.utils.data import DataLoader
from training_config.processes import needs_processes

from training_checklist import session
from training_checklist.diagnosis.diagnose import diagnose, print_traceback
from training_checklist.ending import FitEnded, exits_are_errors, launched_rank
from training_checklist.engines.freed import give_back_where_grown
from training_checklist.engines.group_of_one import groups_of_one
from training_checklist.engines.nearest import Nearest
from training_checklist.engines.own_code import is_own_class, is_tool_error, last_frames, pass_on
from training_checklist.engines.short_runs import schedules_of_short_runs
from training_checklist.finding import NOWHERE, Finding, Verdict
from training_checklist.lightning import (
    Callback,
    Checkpoint,
    EarlyStopping,
    LightningModule,
    ModelCheckpoint,
    Trainer,
    TrainerState,
    is_overridden,
)
from training_checklist.probe import CannotJudge, Probe
from training_checklist.starting.shape import agreed

# Past the setters, which refuse some of it once a loader is built.
WITHOUT_WORKERS = {
    "num_workers": 0,
    "prefetch_factor": None,
    "persistent_workers": False,
    "timeout": 0,
    "_DataLoader__multiprocessing_context": None,
}


RAISES = "the project's code raises"
BEFORE_CKPT_PATH = 4  # arguments of Trainer.fit


class Experiment(Callback):
    """One item of the checklist: how a run is shaped, and what is watched in it.

    A subclass names its `item`, records evidence in Lightning's hooks and gives it to `judge`, at the latest in
    `conclude`, which is called when the run is over. Its constructor takes its arguments, which the item's YAML sets.
    """

    item: ClassVar[str]
    shapes_run: ClassVar[bool] = False  # whether it decides how long the run lasts; two of those exclude each other
    is_whole: ClassVar[bool] = False  # whether the run is as long as the project's own, or is planned to be
    drops: ClassVar[tuple[type[Callback], ...]] = (EarlyStopping,)  # callbacks that would only disturb
    no_workers: ClassVar[bool] = False  # whether data are loaded in this process while it fits
    # Whether the training function ends where it would go on to test. What it reads after training, such as a metric of
    # validation or the best checkpoint, need not be there then, and proves nothing where it is missing.
    ends_with_fit: ClassVar[bool] = False
    # Whether a further training of the run, of a module of another class, is looked at by itself.
    begins_anew: ClassVar[bool] = False
    eager: ClassVar[bool] = True  # whether compiled networks run as they are written: hooks see no modules of them else

    def __reduce__(self) -> tuple[type[Callback], tuple[()]]:
        """Stay behind where the project sends its Trainer to another process, as a dataset's workers do with a hook."""
        return Callback, ()

    def __copy__(self) -> "Experiment":
        own = object.__new__(type(self))
        vars(own).update(vars(self))
        return own

    def __init__(self, topics: Sequence[str] = ()) -> None:
        if self.eager:
            torch.compiler.set_stance("force_eager")
        self.topics = tuple(topics)  # of its probes
        self.findings: list[Finding] = []
        self.judged: set[str] = set()
        self.unjudged: dict[str, str] = {}
        self.error: str | None = None
        self.seen = ""
        self.skipped: str | None = None
        self.facts: dict[str, Any] = {}
        self.earlier: Experiment | None = None  # of the same item, in an earlier Trainer of this run
        self.further: list[Experiment] = []  # of the same item, each by itself in a later training
        self.module: type[LightningModule] | None = None  # class of what its Trainer fits
        self.rank, self.world_size = launched_rank(), 1
        self.fits = False  # whether its Trainer has begun to fit
        self.resumes = True  # whether `fit` is given a ckpt_path, be it None
        self.fitted = False  # whether training has come to its end
        self.at_the_end = False  # whether its last batch is done, after which it asks nothing of the project's code
        self.crashes: list[Exception] = []  # that the run has survived
        self.state: TrainerState | None = None  # of the last Trainer that it took part in
        self.nearest: Nearest | None = None  # to a place, of that Trainer
        self.loading = NoWorkers()
        self.watching = ExitStack()  # left at the latest when training is over, or has failed
        self.started = time.monotonic()

    @cached_property
    def probes(self) -> list[Probe]:
        """All that it asks."""
        return session.settings().rules.probes(self.item, self.topics)

    def ask(self, probes: Iterable[Probe], lab: Any, **known: Any) -> None:
        """Have probes look at what this item examines. One that fails itself is a tool error; the others go on.

        Args:
            known: what has become known of it meanwhile, by the attributes that it declares.
        """
        vars(lab).update(known)
        settings = session.settings()
        for probe in probes:
            give_back_where_grown()
            try:
                found, unknown = probe.look(lab, settings.of_item(probe.item))
            except CannotJudge as reason:
                self.unjudged[probe.id] = str(reason)
            except Exception as error:
                if lacks_memory(error):  # which is the training's to fill
                    self.unjudged[probe.id] = "there is too little memory for it beside the training"
                    continue
                if not is_tool_error(error):  # it came through `pass_on`
                    self.unjudged.setdefault(probe.id, f"{RAISES} {type(error).__name__}: {error}")
                    continue
                self.fail_itself(error, f"probe {probe.id}")
                self.unjudged.setdefault(probe.id, f"it has failed itself: {type(error).__name__}: {error}")
            else:
                self.judged.add(probe.id)
                if unknown:
                    self.facts.setdefault("judged_in_part", {})[probe.id] = unknown
                for finding in found:
                    self.add(finding)

    def examine(self, fit: Callable[..., None], folder: Path) -> None:
        """Have an example judged: `fit(callback)` makes it anew and trains it. `folder` is the run's directory."""
        fit(self)
        self.conclude(folder)

    def has_found(self, *rules: str) -> bool:
        """Whether one of some rules, or any where none is named, has found something."""
        return any(not rules or finding.rule in rules for finding in self.findings)

    def skip(self, reason: str) -> None:
        """Say why this item means nothing here."""
        self.skipped = reason

    def follow(self, earlier: "Experiment") -> None:
        """Leave the verdict to the same item's experiment in an earlier Trainer of this run."""
        self.earlier = earlier
        self.findings, self.judged, self.unjudged = earlier.findings, earlier.judged, earlier.unjudged

    def fail_itself(self, error: BaseException, where: str) -> None:
        """Say that this package, and not the project, has failed."""
        owner = self.earlier or self
        owner.error = owner.error or f"{where}: {type(error).__name__}: {error}\n{last_frames(error)}"

    def conclude(self, folder: Path) -> None:
        """Judge what can only be judged when the run is over; `folder` is the run's directory."""

    def explain(self, error: Exception) -> Finding | None:
        """Return what an exception of the run means to this item, or None where it says nothing particular."""
        return None

    def has_raised(self, error: BaseException) -> bool:
        """Whether an exception is how this item finds something: no run without it would end so."""
        return False

    def setup(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:
        if stage == "fit":
            self._begin(type(pl_module))
        if self.earlier is not None and self.earlier.is_over:
            end()
        self.fits = self.fits or stage == "fit"
        self.rank, self.world_size, self.state = trainer.global_rank, trainer.world_size, trainer.state
        self.nearest = Nearest(trainer)
        if stage == "fit" and is_overridden("configure_optimizers", pl_module):
            self.watching.enter_context(schedules_of_short_runs(trainer, pl_module, not self.is_whole))
        if stage == "fit":  # a script may validate before; a new list, as Lightning is going through the old one
            trainer.callbacks = without(trainer, self.drops)
        keep_every_epoch(trainer)
        if self.no_workers and stage == "fit":
            self.loading.__enter__()

    def _begin(self, module: type[LightningModule]) -> None:
        """Take note of a training that begins, and of whether it is the first one, or one to be looked at by itself."""
        self.module, first = module, self.earlier
        if first is None:
            return
        if not first.fits:
            session.lead(self)
        elif self.begins_anew and module not in (first.module, *(each.module for each in first.further)):
            self.earlier, self.findings, self.judged, self.unjudged = None, [], set(), {}
            first.further.append(self)

    def after_fit(self, trainer: Trainer) -> None:
        """Do what an item asks for when `trainer.fit` has come to its end, before the training function goes on."""

    def raised(self, error: Exception) -> None:
        """Report what code of the project has raised where the run goes on all the same.

        Raises:
            Exception: `error` itself, where it is this package's.
        """
        if is_tool_error(error):
            raise error
        print_traceback(error)
        self.crashes.append(error)
        self.add(diagnose(error))

    def on_load_checkpoint(self, trainer: Trainer, pl_module: LightningModule, checkpoint: dict[str, Any]) -> None:
        # The few epochs and steps that an item asks for come after those that a resumed run has behind it.
        loop, epochs, steps = trainer.fit_loop, checkpoint.get("epoch", 0) + 1, checkpoint.get("global_step", 0)
        if loop.max_epochs is not None and 0 < loop.max_epochs <= epochs:
            loop.max_epochs += epochs
        if trainer.fast_dev_run:  # one epoch of one batch: with max_steps, Lightning 2.6 goes on in the epoch before it
            loop.epoch_loop.max_steps = -1
        elif 0 < loop.epoch_loop.max_steps <= steps:
            loop.epoch_loop.max_steps += steps

    def teardown(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:
        self.watching.close()
        if self.no_workers and stage == "fit":
            self.loading.__exit__()
        if self.ends_with_fit and stage == "fit":
            trainer.validate = trainer.test = trainer.predict = end

    def on_exception(self, trainer: Trainer, pl_module: LightningModule, exception: BaseException) -> None:
        # Lightning tears no callback down then.
        self.watching.close()
        if self.no_workers:
            self.loading.__exit__()

    def verdict(self, question: str) -> Verdict:
        """Return what the item came to. What the project has silenced counts no more, and is kept beside."""
        settings, counted, silenced = session.settings(), [], []
        for finding in self.findings:
            reason = settings.reason_to_ignore(finding)
            silenced += [] if reason is None else [(finding, reason)]
            counted += [finding] if reason is None else []
        skipped = self.skipped
        if self.probes and not self.judged and not self.findings and skipped is None and self.error is None:
            skipped = next(iter(self.unjudged.values()), "no hook of it has run, so that there is nothing to judge by")
        verdict = Verdict(
            self.item,
            question,
            counted,
            self.seen,
            skipped,
            time.monotonic() - self.started,
            self.facts,
            sorted(self.judged),
            {rule: reason for rule, reason in self.unjudged.items() if rule not in self.judged},
            silenced,
            self.error,
        )
        for each in self.further:
            verdict = verdict.then(each.module.__name__, each.verdict(question))
        return verdict

    @property
    def is_over(self) -> bool:
        """Whether training has come to its end, and all that follows is nothing that this item asks about.

        What hooks do at the end of a training that the item has made another one is nothing either.
        """
        over = self.at_the_end or (self.state is not None and self.state.finished)
        return self.ends_with_fit and self.fits and over

    def add(self, finding: Finding) -> None:
        """Keep a finding, once."""
        if finding not in self.findings:
            self.findings.append(self.placed(finding))

    def placed(self, finding: Finding) -> Finding:
        """Return a finding with the line of the project that is nearest, where its place names none."""
        known = self.nearest is None or finding.near != NOWHERE
        return finding if known else replace(finding, near=self.nearest.to(finding.place))


def lacks_memory(error: Exception) -> bool:
    """Whether an exception says that memory is short: of the accelerator, or of torch or Python on the CPU."""
    return isinstance(error, (MemoryError, torch.OutOfMemoryError)) or "can't allocate memory" in str(error)


def end(*_: Any, **__: Any) -> NoReturn:
    """Stand for `Trainer.test` where there is nothing that it could test."""
    raise FitEnded("training is over, and that was all that the debug item asked for")


def without(trainer: Trainer, kinds: tuple[type[Callback], ...]) -> list[Callback]:
    """Return the callbacks but for those of some kinds."""
    kept = [callback for callback in trainer.callbacks if not isinstance(callback, kinds)]
    if trainer.checkpoint_callback is not None and Checkpoint in kinds:
        # Training functions ask for the best path; this one saves nothing and has none.
        kept.append(ModelCheckpoint(save_top_k=0))
    return kept


def stop(trainer: Trainer) -> None:
    """Let `fit` end before its next step, as if training were over, whatever least length the project asks for."""
    trainer.should_stop = True
    # Lightning goes on in spite of should_stop while these are not reached.
    trainer.fit_loop.min_epochs = trainer.fit_loop.epoch_loop.min_steps = None


def keep_every_epoch(trainer: Trainer) -> None:
    """Let a run that an item has shortened keep checkpoints too: scripts load the best one when it is over.

    Also one without a step of an optimizer, as of a module that accumulates more batches than the run has.
    """
    for callback in trainer.callbacks:
        if not isinstance(callback, ModelCheckpoint):
            continue
        callback._last_global_step_saved = callback._last_global_step_saved or -1
        if callback._every_n_epochs != 1:
            callback._every_n_epochs, callback._every_n_train_steps, callback._train_time_interval = 1, 0, None
            callback._save_topk_checkpoint = partial(keep_without_monitor, callback)


def keep_without_monitor(callback: ModelCheckpoint, trainer: Trainer, known: dict[str, Tensor]) -> None:
    """Save a checkpoint that the project would save in later epochs: only these may log what it is chosen by."""
    if callback.monitor in known:
        type(callback)._save_topk_checkpoint(callback, trainer, known)
    else:
        callback._save_none_monitor_checkpoint(trainer, known)


class NoWorkers:
    """While it is entered, every DataLoader that is built loads in this process, whatever it was asked for.

    A DataModule decides about its loaders itself, and not every one has an argument for their workers. What it asked
    for is kept in `loader.asked`: number of workers, and whether they are persistent.
    """

    def __init__(self) -> None:
        self._init: Any = None

    def __enter__(self) -> None:
        # Two experiments of one run leave in the order in which they entered: both keep the original.
        self._init = init = getattr(DataLoader.__init__, "original", DataLoader.__init__)

        @wraps(init)  # Lightning reads the signature
        def without_workers(loader: DataLoader, *arguments: Any, **options: Any) -> None:
            pass_on(init, loader, *arguments, **options)
            vars(loader)["asked"] = loader.num_workers, loader.persistent_workers
            vars(loader).update(WITHOUT_WORKERS)

        without_workers.original = init
        DataLoader.__init__ = without_workers

    def __exit__(self, *error: object) -> None:
        if self._init is not None:
            DataLoader.__init__ = self._init


@contextmanager
def every_trainer(parts: Mapping[str, DictConfig], asked: Mapping[str, Any], grouped: bool) -> Iterator[None]:
    """While it is entered, the experiments of every Trainer that is built take part, and those of `parts` it lacks.

    Args:
        parts: configs of experiments, by their keys in `callbacks`.
        asked: arguments that every Trainer gets, wherever its own come from: no item trains longer than it says.
        grouped: whether the config has its Trainer form a process group; what the code gives to one is looked at, too.
    """
    init, fit = Trainer.__init__, Trainer.fit
    asked = {**asked, "num_nodes": 1} if asked.get("devices") == 1 else dict(asked)

    @wraps(init)
    def with_experiments(trainer: Trainer, *arguments: Any, **options: Any) -> None:
        pass_on(init, trainer, *arguments, **{**options, **agreed(asked, options)})
        if asked.get("devices") == 1 and (grouped or needs_processes(options)):
            promise(trainer)
        built = {f"debug_{callback.item}" for callback in trainer.callbacks if isinstance(callback, Experiment)}
        trainer.callbacks += [instantiate(part) for key, part in parts.items() if part and key not in built]
        for callback in trainer.callbacks:
            if isinstance(callback, Experiment):
                session.add(callback)

    @wraps(fit)
    def and_after(trainer: Trainer, *arguments: Any, **options: Any) -> Any:
        for callback in trainer.callbacks:
            if isinstance(callback, Experiment):
                callback.resumes = "ckpt_path" in options or len(arguments) > BEFORE_CKPT_PATH
        try:
            with exits_are_errors():
                result = pass_on(fit, trainer, *arguments, **options)
        except Exception as error:
            # An exception of the project's own, which its program catches, may be how it ends a training.
            session.end_with(None if is_own_class(type(error)) else error)
            raise
        session.end_with(None)
        after_fit(trainer)
        return result

    Trainer.__init__, Trainer.fit = with_experiments, and_after
    try:
        with groups_of_one() as promise:
            yield
    finally:
        Trainer.__init__, Trainer.fit = init, fit


def after_fit(trainer: Trainer) -> None:
    """Let the experiments of a Trainer that has fitted do what comes then."""
    for callback in trainer.callbacks:
        if isinstance(callback, Experiment) and callback.earlier is None:
            callback.fitted = True
            callback.after_fit(trainer)
