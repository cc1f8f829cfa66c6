"""Where each value of the config comes from, and what in it cannot work; nothing is trained."""

import os
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

from hydra.core.utils import JobReturn, JobStatus
from hydra.experimental.callback import Callback
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException
from rich.console import Console
from rich.text import Text
from training_config.provenance import COMMAND_LINE, Setting
from training_config.secret_values import redact_text, secret_values

from training_checklist import session
from training_checklist.ending import launched_rank
from training_checklist.experiments.experiment import Experiment, end
from training_checklist.finding import Verdict
from training_checklist.lab.job_config import JobConfig, override_of, provenance, targets
from training_checklist.probe import CannotJudge
from training_checklist.settings import KEY
from training_checklist.starting.placement import own_folder
from training_checklist.starting.shape import unshaped

LIGHTNING = ("pytorch_lightning", "lightning.pytorch")
ENTRIES = ("fit", "validate", "test", "predict")


class ConfigWatch(Callback):
    """Judges a job's config before anything is built from it; where no other item is on, nothing is trained.

    Args:
        all: whether to show where every key was set, and not only those set by the command line or in two files.
    """

    def __init__(self, all: bool, topics: Sequence[str] = ()) -> None:
        self.all, self.topics = all, topics

    def on_job_start(self, config: DictConfig, **kwargs: Any) -> None:
        self.check = ConfigCheck(self.all, self.topics)
        session.add(self.check)
        self.idle = IdleTrainer(self.check.comes_to_fit)
        self.alone = list(config.hydra.callbacks.debug["items"]) == [ConfigCheck.item]
        try:
            self.check.examine(unshaped(config))
        except Exception as error:  # Hydra would make a warning of it, and the item would seem to have passed
            self.check.fail_itself(error, ConfigCheck.item)
        if self.alone:
            self.idle.__enter__()

    def on_job_end(self, config: DictConfig, job_return: JobReturn, **kwargs: Any) -> None:
        self.check.take_back(job_return.cfg)
        if not self.alone:
            return
        self.idle.__exit__()
        # A script that goes on all the same stumbles over metrics and checkpoints that are not there.
        if job_return.status == JobStatus.FAILED and (
            self.idle.asked or self.check.predicted(job_return._return_value)
        ):
            job_return.status, job_return.return_value = JobStatus.COMPLETED, None


class IdleTrainer:
    """While it is entered, fit, validate, test and predict of every Trainer end the training function.

    What follows there may take long, or export a network that has not been trained.

    Args:
        on_fit: is told of the Trainer that is asked to fit.
    """

    def __init__(self, on_fit: Callable[[Any], None]) -> None:
        self.asked, self.on_fit = False, on_fit
        self._entries: list[tuple[type, str, Any]] = []

    def __enter__(self) -> None:
        def fit(trainer: Any, *_: Any, **__: Any) -> NoReturn:
            self._fit(trainer)

        for name in LIGHTNING:
            trainer = getattr(sys.modules.get(name), "Trainer", None)
            for entry in ENTRIES if trainer is not None else ():
                self._entries.append((trainer, entry, getattr(trainer, entry)))
                setattr(trainer, entry, fit if entry == "fit" else self._ask)

    def _ask(self, *arguments: Any, **options: Any) -> NoReturn:
        self.asked = True
        end()

    def _fit(self, trainer: Any) -> NoReturn:
        from training_checklist.engines.inside import tell_of_fit

        tell_of_fit()  # a script that catches every exception goes on
        self.on_fit(trainer)
        self._ask()

    def __exit__(self, *error: object) -> None:
        for trainer, entry, method in reversed(self._entries):  # a class may stand there twice
            setattr(trainer, entry, method)


class ConfigCheck(Experiment):
    """Nothing is trained: the config itself is looked at, key by key, beside the code that reads it."""

    item = "config"
    is_whole = True

    def __init__(self, everything: bool, topics: Sequence[str] = ()) -> None:
        super().__init__(topics)
        self.everything = everything
        self.seconds = 0.0

    def examine(self, config: DictConfig) -> None:
        """Have all that is wrong with a job's config judged, and show where its values come from."""
        self.job = JobConfig(config)
        self.ask(self.probes, self.job)
        self._show(self.job)
        self.seconds = time.monotonic() - self.started

    def comes_to_fit(self, trainer: Any) -> None:
        """Judge what only a Trainer tells. What has no effect at all need not be right, too."""
        before = [*self.findings]
        self.ask([each for each in self.probes if each.id in self.unjudged], self.job, fitting=trainer)
        without_effect = [f"{each.place.key}." for each in self.findings if each not in before]
        told = [each for each in before if not each.place.key.startswith(tuple(without_effect))]
        self.findings = [each for each in self.findings if each in told or each not in before]

    def verdict(self, question: str) -> Verdict:
        verdict = super().verdict(question)
        verdict.seconds = self.seconds  # not those of the run, where other items want one
        return verdict

    def take_back(self, config: Any) -> None:
        """Drop what is said of interpolations that resolve once the program has added keys to its config."""
        rule = "config/unresolved-interpolation"
        self.findings = [each for each in self.findings if each.rule != rule or not resolves(config, each.place.key)]

    def predicted(self, error: BaseException | None) -> bool:
        """Whether a finding says already what an exception says."""
        keys = [finding.place.key.removesuffix("._target_") for finding in self.findings if finding.place.key]
        told = [text for key in keys for text in (key, f"'{key.rpartition('.')[2]}'")]
        while isinstance(error, BaseException):
            first = (str(error).splitlines() or [""])[0]
            if any(text in str(error) for text in told) or any(first and first in each.what for each in self.findings):
                return True
            error = error.__cause__
        return False

    def _show(self, job: JobConfig) -> None:
        self.seen = f"{sum(not each.problem for each in targets(job))} _target_s take their arguments"
        try:
            history = {key: settings for key, settings in provenance(job).history.items() if key[0] != KEY}
        except CannotJudge as reason:
            self.skip(str(reason))
            return
        told = {key: s for key, s in history.items() if len(s) > 1 or s[0].file == COMMAND_LINE}
        self.seen = f"{len(history)} keys, {len(told)} of them set by the command line or in two files; {self.seen}"
        self.facts["set"] = {
            ".".join(key): [{"value": setting.value, "where": str(setting)} for setting in settings]
            for key, settings in told.items()
        }
        secrets = secret_values(job.config)
        lines = {key: redact_text(line(key, settings), secrets) for key, settings in history.items()}
        path = own_folder(job.config) / "debug" / "config.txt"
        if launched_rank() != 0 or ("RANK" in os.environ and path.is_file()):  # another process of the job shows it
            return
        path.parent.mkdir(exist_ok=True)
        path.write_text("".join(f"{text}\n" for text in lines.values()), encoding="utf-8")
        console = Console()
        console.print()
        heading = "Every key" if self.everything else "Keys set by the command line or in two files"
        more = "" if self.everything else "; all of them: ++checks.config.all=true"
        console.print(Text(f"{heading}, with where it was set ({len(history)} keys{more})", "bold"), soft_wrap=True)
        for key in history if self.everything else told:
            console.print(Text(f"  {lines[key]}"), soft_wrap=True)
        if not told and not self.everything:
            console.print("  none")


def resolves(config: Any, key: str) -> bool:
    try:
        return OmegaConf.select(config, key) is not None
    except OmegaConfBaseException:
        return False


def line(key: tuple[str, ...], settings: list[Setting]) -> str:
    """Return "key = value  file:line  (over file:line = value, ...)"."""
    over = ", ".join(f"{setting} = {override_of(setting.value)}" for setting in settings[-2::-1])
    return f"{'.'.join(key)} = {override_of(settings[-1].value)}  {settings[-1]}" + (f"  (over {over})" if over else "")
