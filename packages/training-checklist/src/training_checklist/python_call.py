"""The door without Hydra: items of the checklist on a LightningModule at hand, from a script, a notebook or a test."""

import copy
import re
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from importlib.resources import files
from pathlib import Path
from typing import Any
from unittest.mock import patch

import torch
from hydra.utils import instantiate
from omegaconf import DictConfig, OmegaConf

from training_checklist import session
from training_checklist.ending import CheckFailed, FitEnded, exits_are_errors
from training_checklist.engines.freed import give_back
from training_checklist.engines.inside import writing_inside
from training_checklist.engines.loads import recorded_loads
from training_checklist.engines.own_code import pass_on
from training_checklist.engines.replay import seed_all
from training_checklist.engines.stand_in import let_go_of_original, with_own_containers
from training_checklist.experiments.experiment import after_fit
from training_checklist.experiments.reproducibility.repetition import Repetition
from training_checklist.experiments.reproducibility.reproducibility import Reproducibility
from training_checklist.experiments.without import Without
from training_checklist.finding import ERROR, FAILED, Verdict
from training_checklist.group import OWN
from training_checklist.judging import cause, conclude, crashed, judge
from training_checklist.lightning import (
    NAME,
    NAMES,
    Callback,
    LightningDataModule,
    LightningModule,
    ProgressBar,
    Trainer,
    isolate_rng,
)
from training_checklist.reporting.files import markdown, with_code, write_report
from training_checklist.reporting.notes import notes_on
from training_checklist.reporting.wording import with_commands
from training_checklist.settings import KEY, Settings, check_settings
from training_checklist.starting.check import FOLDER, UNTRIED
from training_checklist.starting.own_files import put_back
from training_checklist.starting.shape import agreed, limits

KEPT = {"callbacks", "logger"}
WITH_TWO_FITS = ("reproducibility",)  # where a command would be repeated, the fit is
ORDER = OmegaConf.load(files("training_checklist.conf") / OWN / "checklist.yaml").hydra.callbacks.debug["items"]


@dataclass(frozen=True)
class Results:
    """What the items came to. `assert check(...).passed` shows the findings where it fails.

    Attributes:
        verdicts: of each item, in order.
        notes: settings that have no effect any more.
    """

    verdicts: tuple[Verdict, ...]
    notes: tuple[str, ...] = ()

    @property
    def passed(self) -> bool:
        """Whether no item has failed. What was skipped has not; a mistake of the checklist itself has."""
        return not any(verdict.status in (FAILED, ERROR) for verdict in self.verdicts)

    def __getitem__(self, item: str) -> Verdict:
        return next(verdict for verdict in self.verdicts if verdict.item == item)

    def __repr__(self) -> str:
        return markdown(list(self.verdicts), [f"check: {'passed' if self.passed else 'failed'}"], list(self.notes))


def check(
    module: LightningModule | Callable[[], LightningModule],
    datamodule: LightningDataModule | Callable[[], LightningDataModule] | None = None,
    items: Sequence[str] | None = None,
    *,
    loaders: Mapping[str, Any] | None = None,
    trainer: Mapping[str, Any] | None = None,
    checks: Mapping[str, Any] | None = None,
    folder: Path | str | None = None,
) -> Results:
    """Run items of the checklist, each on copies of its own, and return their verdicts.

    Args:
        module: to be examined; it stays as it is. A function that makes one, where it cannot be copied.
        datamodule: likewise; None where `loaders` are given or the module has dataloaders of its own.
        items: names as in `+debug=`; None for all that need no Hydra application.
        loaders: `train_dataloaders` and `val_dataloaders`, as `Trainer.fit` takes them.
        trainer: further arguments of the Trainer, such as precision; an item's own come after them. Schedules are
            judged where it says how long training lasts.
        checks: thresholds, `silence`, `baseline` and `rules`, as a project has them below `checks`.
        folder: where report.json, report.md, junit.xml and report.sarif go; None for nowhere.

    Raises:
        ValueError: there is no such item, or `checks` has a mistake.
        TypeError: `module` or `datamodule` belongs to the other one of Lightning's two packages, or cannot be copied;
            `loaders` are not given by name, or `trainer` is none of arguments.
    """
    refuse_other_lightning(module)
    refuse_other_lightning(datamodule)
    refuse_uncopied(module)
    refuse_uncopied(datamodule)
    refuse_other_loaders(loaders)
    if not isinstance(trainer, Mapping | None):
        told = f"check(trainer=...) is given a {type(trainer).__name__}"
        raise TypeError(f"{told}; expected a dict of the Trainer's arguments, such as {{'max_epochs': 10}}")
    configs = {item: load(item) for item in (alone() if items is None else items)}
    settings, problems = check_settings(dict(checks or {}), configs.values())
    if problems:
        raise ValueError("\n".join(problems))
    with tempfile.TemporaryDirectory() as place:  # checkpoints and logs of runs that are none
        verdicts = []
        for item, config in configs.items():
            with leaving_no_files(own := Path(place, item)):
                given = with_callbacks(trainer or {})
                verdicts.append(run(item, config, settings, (module, datamodule), loaders or {}, given, own))
            give_back()
        verdicts = [replace(each, seen=lasting(each.seen, place, folder)) for each in verdicts]
        notes = notes_on(verdicts, settings)
        if folder is not None:
            write_report(Path(folder), [*map(with_code, verdicts)], notes, settings.rules)
            for item in configs:  # what an item has written beside
                if Path(place, item, FOLDER).is_dir():
                    shutil.copytree(Path(place, item, FOLDER), Path(folder, item, FOLDER), dirs_exist_ok=True)
    return Results(tuple(verdicts), tuple(notes))


@contextmanager
def leaving_no_files(folder: Path) -> Iterator[None]:
    """Let what is trained write below a folder, and put back what callbacks and loggers at hand write elsewhere."""
    folder.mkdir(parents=True, exist_ok=True)
    try:
        with writing_inside(folder):
            yield
    finally:
        put_back(folder)


def with_callbacks(trainer: Mapping[str, Any]) -> dict[str, Any]:
    """Return arguments of the Trainer with its callbacks in a list, one or none too; it prints what it must alone."""
    callbacks = trainer.get("callbacks") or []
    callbacks = [callbacks] if isinstance(callbacks, Callback) else [*callbacks]
    shows = any(isinstance(each, ProgressBar) for each in callbacks)  # which Lightning refuses where that is False
    return {"enable_progress_bar": shows, "enable_model_summary": False, **trainer, "callbacks": callbacks}


def copied(trainer: Mapping[str, Any]) -> dict[str, Any]:
    """Return arguments of the Trainer with copies of callbacks and loggers, which go on where a fit leaves them."""
    found = dict(trainer)
    for name in KEPT & found.keys():
        try:
            found[name] = copy.deepcopy(found[name])
        except Exception:  # of any kind, of one that keeps a lock, say
            parts = found[name]
            found[name] = [*map(own_copy, parts)] if isinstance(parts, (list, tuple)) else own_copy(parts)
    return found


def own_copy(part: Any) -> Any:
    """Return a copy of a callback or logger, one that shares what cannot be copied, or the same where none can be."""
    for copier in (copy.deepcopy, with_own_containers):
        with suppress(Exception):
            return copier(part)
    return part


def lasting(text: str, place: str, folder: Path | str | None) -> str:
    """Return a text without the files that are gone when a check is over, or with where they are then."""
    if folder is None:
        return re.sub(rf"; see {re.escape(place)}\S*", "", text)
    return text.replace(place, str(folder))


def run(
    item: str,
    config: DictConfig,
    settings: Settings,
    parts: tuple[Any, Any],
    loaders: Mapping[str, Any],
    trainer: dict[str, Any],
    folder: Path,
) -> Verdict:
    """Run one item on copies."""
    question = config.hydra.callbacks.debug["items"][item]
    if needs_an_application(item, config):
        return Verdict(item, question, skipped="it examines a Hydra application and its command, and this is a call")
    if item in WITH_TWO_FITS:
        try:
            copy.deepcopy(dict(loaders))
        except Exception as error:  # of any kind: one that keeps its iterator raises NotImplementedError
            told = f"these loaders cannot be copied ({error}), and a second fit would go on where the first has ended"
            return Verdict(item, question, skipped=f"{told}: give check() a function that makes a datamodule")
    root = OmegaConf.merge(config, {KEY: {name: dict(values) for name, values in settings.chosen.items()}})
    experiments, started, error = session.begin(settings, is_endless(trainer)), time.monotonic(), None
    with isolate_rng(), recorded_loads([item]):
        seed_all()
        experiment = instantiate(root.callbacks[f"debug_{item}"])
        session.add(experiment)
        options = {"default_root_dir": folder, **trainer, **agreed(root.get("trainer", {}), trainer)}
        try:
            if item in WITH_TWO_FITS:
                fit_twice(experiment, instantiate(root.callbacks[f"debug_{item}"]), parts, loaders, options)
            else:
                fit(experiment, parts, loaders, options)
        except Exception as raised:
            error = raised
        if error is None:
            conclude(experiments, folder)
    [verdict] = judge({item: question}, error, started)
    session.begin()
    expected = error is None or cause(error, CheckFailed) is not None or experiment.has_raised(error)
    if not expected and verdict.error is None and item not in UNTRIED:
        alone = {"default_root_dir": folder, **trainer, **agreed(limits(root.get("trainer", {})), trainer)}
        other = error_without(item, parts, loaders, alone)
        if other is not None and not crashed(other, None, False).arises_with(crashed(error, None, False)):
            [verdict] = judge({item: question}, other, started)  # no further can the module be judged
        elif other is None:
            told = crashed(error, None, False).told
            return Verdict(item, question, error=f"{item}: {told}\nonly with {item}, and not in the same fit without")
    return replace(verdict, findings=[with_commands(finding, item, None) for finding in verdict.findings])


def is_endless(trainer: Mapping[str, Any]) -> bool:
    """Whether nothing says how long training lasts, for which a Trainer takes 1000 epochs."""
    return all(trainer.get(name) is None for name in ("max_epochs", "max_steps", "max_time"))


def fit(experiment: Any, parts: tuple[Any, Any], loaders: Mapping[str, Any], options: Mapping[str, Any]) -> None:
    """Let a Trainer fit copies, with an experiment among its callbacks."""
    module, datamodule = (made(part) for part in parts)
    options = copied(options)
    callbacks = [*options["callbacks"], experiment]
    try:
        trainer = Trainer(**{**options, "callbacks": callbacks})
        with exits_are_errors():
            pass_on(trainer.fit, module, **({"datamodule": datamodule} if datamodule is not None else dict(loaders)))
        after_fit(trainer)
    except FitEnded:
        pass


def error_without(
    item: str, parts: tuple[Any, Any], loaders: Mapping[str, Any], options: Mapping[str, Any]
) -> Exception | None:
    """Return what ends a fit of the same length without the item; None: it does not fail, and the item is to blame."""
    try:
        with isolate_rng():
            seed_all()
            fit(Without(stages=item == "fast_dev_run", ends=True), parts, loaders, options)
    except Exception as other:
        return other
    return None


def fit_twice(
    experiment: Reproducibility,
    first: Reproducibility,
    parts: tuple[Any, Any],
    loaders: Mapping[str, Any],
    options: dict[str, Any],
) -> None:
    """Fit with one seed under one experiment and then under another, which is given what the first has recorded."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # sums over several threads may come out in another order
    try:
        with patch.object(Repetition, "current", None):  # which a command has left that ran here before
            for each in (first, experiment):
                seed_all()
                fit(each, parts, copy.deepcopy(dict(loaders)), options)  # a loader's generator goes on
    finally:
        torch.set_num_threads(threads)
    experiment.other, experiment.rebuilt = first.recording, not isinstance(parts[0], LightningModule)


def refuse_other_lightning(part: Any) -> None:
    """Raise TypeError where a module belongs to the other one of Lightning's two packages."""
    for base in type(part).__mro__:
        name = base.__module__.partition(".core.")[0]
        if base.__name__ in ("LightningModule", "LightningDataModule") and name in NAMES and name != NAME:
            raise TypeError(
                f"{type(part).__name__} is a {base.__name__} of {name}, and training_checklist has found {NAME}: "
                f"import training_checklist after the module, in a process that imports {name} alone"
            )


def refuse_other_loaders(loaders: Any) -> None:
    known = ("train_dataloaders", "val_dataloaders")
    if loaders is not None and not (isinstance(loaders, Mapping) and set(loaders) <= set(known)):
        given = [*loaders] if isinstance(loaders, Mapping) else type(loaders).__name__
        raise TypeError(f"check(loaders=...) is given {given}; expected a dict with {' and '.join(known)}")


def refuse_uncopied(part: Any) -> None:
    """Raise TypeError where a module cannot be copied."""
    try:
        made(part) if isinstance(part, (LightningModule, LightningDataModule)) else None
    except Exception as error:
        told = f"{type(part).__name__} cannot be copied ({type(error).__name__}: {error})"
        raise TypeError(f"{told}: give check() a function that makes one") from error


def made(part: Any) -> Any:
    """Return a copy of a module or datamodule, or what a function makes."""
    if part is None or isinstance(part, LightningDataModule):
        return copy.deepcopy(part)
    if isinstance(part, LightningModule):
        copies: dict[int, Any] = {}
        own = copy.deepcopy(part, copies)
        let_go_of_original(own, copies)
        return own
    return pass_on(part)


def load(item: str) -> DictConfig:
    path = files("training_checklist.conf") / OWN / f"{item}.yaml"
    if not path.is_file():
        raise ValueError(f"items has {item!r}; there are {', '.join(ORDER)}")
    return OmegaConf.load(path)


def alone() -> list[str]:
    """Return the items that need no Hydra application, in the checklist's order."""
    return [item for item in ORDER if not needs_an_application(item, load(item))]


def needs_an_application(item: str, config: DictConfig) -> bool:
    """Return whether callbacks of Hydra do an item's work.

    Without debug_modes, lines are not seen that put modules into eval mode before the call.
    """
    return item not in WITH_TWO_FITS and not {"debug", "debug_modes"}.issuperset(config.hydra.callbacks)
