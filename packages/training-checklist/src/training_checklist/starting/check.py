"""One check: items in processes of their own, and what remains of them, which is the report."""

import contextlib
import json
import os
import shutil
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NoReturn

from hydra.core.hydra_config import HydraConfig
from hydra.types import TaskFunction
from omegaconf import DictConfig

from training_checklist.ending import OF_CHECKLIST
from training_checklist.finding import ERROR, FAILED, Crashed, Verdict
from training_checklist.reporting.files import FILES, write_report
from training_checklist.reporting.notes import notes_on
from training_checklist.reporting.terminal import print_report
from training_checklist.settings import Settings, read_settings
from training_checklist.starting.arguments import CALLBACK, without
from training_checklist.starting.own_files import put_back
from training_checklist.starting.placement import RUN, Asked, is_item
from training_checklist.starting.shape import switched_off
from training_checklist.starting.start import Starter

CHECK_FAILED, TOOL_FAILED = 1, 2  # exit codes
REFUSED = "refused.txt"
FOLDER = "debug"  # in the directory that Hydra would give to the command
OUTPUT = "output.log"
TRIAL = "without"  # folder of a run without the item that has failed
TRIAL_SECONDS = 300  # as long as one item waits at most for a process of its own
OWN_PLACES = "paths"  # the item that asks where the project itself writes
# Items whose exceptions are about what only they do: nothing is trained, or in several processes, or somebody is asked.
UNTRIED = {"config", "distributed", "breakpoint"}


@dataclass
class Outcome:
    """What one process came to.

    Args:
        verdicts: of its items.
        crashed: whether an exception has ended the run.
        crashes: the exceptions of the run.
        refused: why it has not begun, or "".
        told: whether it has come to its end, and reported.
    """

    verdicts: list[Verdict]
    crashed: bool = False
    crashes: list[Crashed] = field(default_factory=list)
    refused: str = ""
    told: bool = True

    def meets(self, crash: Crashed) -> bool:
        """Whether an exception that ends another run arises in this one, too."""
        return any(each.arises_with(crash) for each in self.crashes)

    def without(self, crash: Crashed) -> None:
        """Take the finding of an exception away; an item that has judged nothing else has passed nothing."""
        self.crashed = False
        for verdict in self.verdicts:
            verdict.findings = [each for each in verdict.findings if (each.rule, each.what) != tuple(crash.finding)]
            if not verdict.judged and not verdict.findings:
                verdict.skipped = verdict.skipped or next(iter(verdict.unjudged.values()), None)

    def only_in_short(self, crash: Crashed) -> None:
        """Say of an exception that the run is too short for what has raised it: it has ended, and is skipped."""
        self.drop(crash)
        for verdict in self.verdicts:
            verdict.skipped = f"a run as short as this item's ends with {crash.told}; the command's own goes on there"

    def drop(self, crash: Crashed) -> None:
        """Take an exception away that only an item has brought about: the program does not end so."""
        self.without(crash)
        self.crashes = [each for each in self.crashes if each is not crash]


class Check:
    """The items of one job.

    Args:
        config: the job's, as the command that was typed composes it.
        task: the project's training function, which this process never calls.
        asked: for the directory of the job, in which the report gets a folder.
    """

    def __init__(self, config: DictConfig, task: TaskFunction, asked: Asked) -> None:
        HydraConfig.instance().set_config(config)
        self.settings: Settings = refuse(*read_settings(config))
        self.config, self.folder = config, asked.folder / FOLDER
        asked.tell()
        self.starter = Starter(config, task)
        self.here = self.starter.cwd
        self.own: set[str] = set()  # exceptions that the project raises without an item, too
        self.told: set[str] = set()  # those of them that a verdict tells of
        self.of_items: set[str] = set()  # exceptions for what an item has left out or shortened
        self.of_places: set[str] = set()  # those after training for where an item has its checkpoints written
        self.of_short: set[str] = set()  # those of training that a run of the command's own length does not raise

    def judged(
        self, items: Mapping[str, str], arguments: list[str], place: Path, output: str | None, seconds: float | None
    ) -> Outcome:
        """Run items in one process, as `run` does, and have every exception told at whose door it belongs."""
        outcome = self.blamed([*items], self.run(items, arguments, place, output, seconds))
        mistaken = outcome.crashes and any(verdict.error for verdict in outcome.verdicts)
        if mistaken and "fast_dev_run" in items:  # some callbacks refuse that mode: limits ask for as much
            limited = [*arguments, f"++hydra.callbacks.{CALLBACK}.limited=true"]
            outcome = self.blamed([*items], self.run(items, limited, place, output, seconds))
        return outcome

    def run(
        self, items: Mapping[str, str], arguments: list[str], place: Path, output: str | None, seconds: float | None
    ) -> Outcome:
        """Run items in one process.

        Args:
            items: with what they ask.
            arguments: the overrides of the command, with these items on.
            place: the folder for what they leave.
            output: the name of a file in it that gets what the process prints; None: the user sees it.
            seconds: that it may take.
        """
        work = self.folder / f".{'-'.join(items)}-{os.getpid()}"
        shutil.rmtree(work, ignore_errors=True)
        work.mkdir(parents=True)
        place.mkdir(parents=True, exist_ok=True)
        printed = None if output is None else place / output
        if printed is not None:
            printed.unlink(missing_ok=True)
        started = time.monotonic()
        try:
            code = self.starter.run(arguments, work, printed, seconds)
            outcome = self._outcome(items, work, place, code, printed, seconds)
        finally:
            put_back(work)
            shutil.rmtree(work, ignore_errors=True)
            with contextlib.suppress(OSError):  # of a check that was refused, nothing is left
                for folder in (place, *dict.fromkeys((self.folder, self.folder.parent))):
                    folder.rmdir()
        for verdict in outcome.verdicts:
            verdict.seconds = round(time.monotonic() - started, 2)
        return outcome

    def _outcome(
        self,
        items: Mapping[str, str],
        work: Path,
        place: Path,
        code: int | None,
        printed: Path | None,
        seconds: float | None,
    ) -> Outcome:
        written = work / FOLDER
        if (written / REFUSED).is_file():
            return Outcome([], refused=(written / REFUSED).read_text(encoding="utf-8"))
        if code is None or not (written / "report.json").is_file():  # what ends at a limit may still write one
            ended = f"did not end within {seconds:g} s" if code is None else f"ended with {in_words(code)}"
            log = "" if printed is None else f"\nsee {self._short(printed)}"
            first = next(iter(items))
            told = f"{first} ended without a report: its process {ended}{log}"
            return Outcome([Verdict(item, question, error=told) for item, question in items.items()], told=False)
        kept = place if place == self.folder else place / FOLDER
        report = json.loads(self._moved((written / "report.json").read_text(encoding="utf-8"), work, kept))
        kept.mkdir(exist_ok=True)
        for path in written.iterdir():
            if not path.name.startswith(".") and (place != self.folder or path.name not in FILES):
                if path.name in FILES:
                    path.write_text(self._moved(path.read_text(encoding="utf-8"), work, kept), encoding="utf-8")
                with contextlib.suppress(FileNotFoundError):
                    replace(path, kept / path.name)
        crashes = [Crashed(**each) for each in report.get("crashes", ())]
        return Outcome([Verdict.from_dict(item) for item in report["items"]], report["crashed"], crashes)

    def blamed(self, items: list[str], outcome: Outcome) -> Outcome:
        """Return what a process came to with every exception at whose door it belongs.

        What fails without the items, too, is the project's, and said once. What does not is a mistake of this package,
        after which no finding counts.
        """
        trains = [item for item in items if item != "config"] or items  # beside others, it only looks on
        for crash in outcome.crashes:
            if crash.unasked and crash.kind in self.of_items:
                outcome.drop(crash)
                continue
            if crash.after and crash.kind in self.of_places:
                outcome.drop(crash)
                continue
            if not crash.after and crash.kind in self.of_short:
                outcome.only_in_short(crash)
                continue
            if crash.after and "distributed" in trains and self._is_of_left_out(items, crash):
                outcome.drop(crash)
                for verdict in outcome.verdicts:
                    if (verdict.skipped or "").endswith(crash.kind.partition(" in ")[0]):
                        verdict.skipped = None
                continue
            if UNTRIED.isdisjoint(trains) and crash.kind not in self.own:
                trial = self._trial(items, crash)
                met = trial.meets(crash)
                shortened = met and crash.after and not crash.unasked
                if shortened:  # few of the test samples may be none that the project's code can do with
                    trial = self._trial(items, crash, whole_tests=True)
                    met = not trial.told or trial.meets(crash)
                if met and crash.after:  # it may read a checkpoint where it has asked for it, as under this item alone
                    placed = self._trial(items, crash, limits_of=[OWN_PLACES])
                    if placed.told and not placed.meets(crash):
                        self.of_places.add(crash.kind)
                        outcome.drop(crash)
                        continue
                if met and not crash.after and "fast_dev_run" in items and self._is_of_short_runs(crash):
                    self.of_short.add(crash.kind)
                    outcome.only_in_short(crash)
                    continue
                # Such as tests, or most of them.
                left_out = crash.unasked or (crash.after and (shortened or switched_off(self.config, items)))
                if left_out and trial.told and not met:
                    self.of_items |= {crash.kind} if crash.unasked else set()
                    outcome.drop(crash)
                    continue
                earlier = [each for each in trial.crashes if each.forestalls(crash)]
                if earlier and not met:  # no further can the project be judged
                    crash = earlier[0]
                    for verdict in outcome.verdicts:
                        verdict.findings = list(trial.verdicts[0].findings)
                # Where the trial itself does not come to an end, nothing says that this package is to blame.
                elif trial.told and not met:
                    told = f"{crash.told}\nonly with {', '.join(items)}, and not in the same run without"
                    for verdict in outcome.verdicts:
                        verdict.findings, verdict.error = [], verdict.error or f"{verdict.item}: {told}"
                    return outcome
                self.own.add(crash.kind)
            if crash.after and crash.kind in self.told:
                outcome.without(crash)
            self.told.add(crash.kind)
        return outcome

    def _is_of_short_runs(self, crash: Crashed) -> bool:
        """Whether a run with the Trainer's own limits comes further than to an exception: `interval = steps // 10`."""
        trial = self._trial([], crash, in_one_process=True)
        return trial.told and not trial.crashes

    def _is_of_left_out(self, items: list[str], crash: Crashed) -> bool:
        """Whether one process raises an exception just where it leaves out what these items do after training."""
        off = [f"{name}=false" for name in switched_off(self.config, items)]
        met = []
        for further in (off, []) if off else ():
            trial = self._trial(items, crash, in_one_process=True, further=further)
            met += [trial.meets(crash)] if trial.told else []
        return met == [True, False]

    def _trial(
        self,
        items: list[str],
        crash: Crashed,
        whole_tests: bool = False,
        in_one_process: bool = False,
        further: Sequence[str] = (),
        limits_of: list[str] | None = None,
    ) -> Outcome:
        """Return what the same run comes to without the items, with further overrides.

        Args:
            whole_tests: as of `Report`.
            limits_of: likewise; None: the items.
        """
        stages = None if crash.unasked else True if "fast_dev_run" in items else None if crash.after else False
        limits_of = items if limits_of is None else limits_of
        arguments = [*without(self.config, limits_of, stages, whole_tests, in_one_process), *further]
        trial = self.run({"without": ""}, arguments, self.folder / TRIAL, OUTPUT, TRIAL_SECONDS)
        shutil.rmtree(self.folder / TRIAL, ignore_errors=True)
        return trial

    def _moved(self, text: str, work: Path, kept: Path) -> str:
        """Return what was said of files in the place that they have had, for the place that they have now."""
        for old, new in ((work / FOLDER, kept), (work / RUN, kept.parent), (work, kept.parent)):
            text = text.replace(str(old), str(new)).replace(self._short(old), self._short(new))
        return text

    def _short(self, path: Path) -> str:
        return os.path.relpath(path, self.here)

    def report(self, verdicts: list[Verdict], crashed: bool = False) -> int:
        """Write and print the report; return the exit code."""
        notes = notes_on(verdicts, self.settings)
        write_report(self.folder, verdicts, notes, self.settings.rules, crashed)
        print_report(verdicts, self.folder, notes)
        statuses = {verdict.status for verdict in verdicts}
        return TOOL_FAILED if ERROR in statuses else CHECK_FAILED if crashed or FAILED in statuses else 0


def refuse(settings: Settings, problems: list[str]) -> Settings:
    """Return the settings; end the process where there are problems."""
    if problems:
        sys.exit("\n".join(problems))
    return settings


def replace(path: Path, target: Path) -> None:
    if target.is_dir():
        shutil.rmtree(target)
    shutil.move(path, target)


def in_words(code: int) -> str:
    return f"exit code {code}" if code >= 0 else f"signal {-code}" + (", as of a lack of memory" if code == -9 else "")


def refused_by(told: str) -> NoReturn:
    """End this process because it was asked for what cannot be; whoever has started it for its items says so."""
    if is_item():
        path = Path(os.environ[OF_CHECKLIST], FOLDER, REFUSED)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(told, encoding="utf-8")
    else:
        print(told, file=sys.stderr)
    raise SystemExit(CHECK_FAILED)
