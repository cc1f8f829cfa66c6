"""Starts an item in a process of its own, from where the user is, and sees it end."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from hydra._internal.utils import run_and_report
from hydra.core.global_hydra import GlobalHydra
from hydra.types import TaskFunction
from omegaconf import DictConfig, OmegaConf

from training_checklist.ending import OF_CHECKLIST
from training_checklist.reporting.wording import flags, program
from training_checklist.starting.fork import Fork, import_all, is_safe
from training_checklist.starting.placement import RUN, placed

STEP = 0.02  # seconds between two looks at a process
KILL = getattr(signal, "SIGKILL", signal.SIGTERM)  # which Windows does not have
GRACE = 5  # seconds that a process has to end by itself; Lightning saves nothing in an item
LEAVING = 60  # seconds to end in after its report, which is the last that an item does: exit handlers may wait for good
HEIR_SECONDS = 60  # three times what a rank waits for another in a collective
IMPORTED = "imported.txt"
STARTED = ".started"  # ending of notes in an item's directory, of the processes that run for it
OF_ITEMS = ("torch", "training_checklist.diagnosis.diagnose", "torchmetrics.classification")
# Threads of torch that have nothing to do sleep. Where they spin, all items of the template's project took 100 s of
# processor time on two cores that others use, too, and 34 s so.
WAITING = {"OMP_WAIT_POLICY": "PASSIVE"}


class Starter:
    """Starts the processes of one job.

    A process is forked from this one where that is safe, so that no further one has to import torch. Whatever
    libraries one has imported, this process imports then, for the next.

    Args:
        config: the job's, as the user's own command composes it.
        task: the project's training function.
    """

    def __init__(self, config: DictConfig, task: TaskFunction) -> None:
        self.config, self.task = config, task
        self.cwd = Path(config.hydra.runtime.cwd)
        self.imported, self.to_import = False, []

    def run(self, arguments: list[str], work: Path, output: Path | None, seconds: float | None) -> int | None:
        """Run a command of these overrides, and return its exit code; None where it was ended after `seconds`.

        One that prints to a file is ended `LEAVING` seconds after its report, too.

        Args:
            work: the directory that it writes to.
            output: the file that it prints to; None: it shares the user's terminal, and may ask.
        """
        process = self._start(arguments, work, output)
        started, reported = time.monotonic(), None
        try:
            with signals_raise():
                while process.poll() is None:
                    now = time.monotonic()
                    if reported is None and output is not None and report_of(work).is_file():
                        reported = now
                    if reported is not None and now - reported > LEAVING:
                        break
                    if seconds is not None and now - started > seconds:
                        return None
                    time.sleep(STEP)
                if (process.returncode or 0) < 0:
                    wait_for_heir(work)
        except KeyboardInterrupt:
            if output is None:  # it has been told, too, and ends as the user's own training would
                wait(process)
            raise
        finally:
            end(process, has_group=output is not None)
            end_started(work)
            self._note_imports(work)
        return process.returncode

    def _start(self, arguments: list[str], work: Path, output: Path | None) -> Any:
        if not self.imported:
            self.imported = True
            variables = OmegaConf.to_container(self.config.hydra.job.env_set, resolve=True)
            given = {name: str(value) for name, value in variables.items()}
            os.environ.update({**WAITING, **os.environ, **given})  # some are read by imports
            import_all(OF_ITEMS if can_fork() else ())
        import_all(self.to_import)
        if can_fork() and GlobalHydra.instance().is_initialized() and is_safe():
            return Fork(lambda: self._as_command([*arguments, *placed(self.config, work / RUN)], work), output)
        return self.start_anew(arguments, work, output)

    def start_anew(self, arguments: list[str], work: Path, output: Path | None) -> subprocess.Popen:
        """Start it as a new interpreter, whose sets are in another order."""
        command = [sys.executable, *self._program(), *arguments, *placed(self.config, work / RUN)]
        environment = {**os.environ, OF_CHECKLIST: str(work)}
        if output is None:
            return subprocess.Popen(command, cwd=self.cwd, env=environment)
        with output.open("a", encoding="utf-8") as file:
            return subprocess.Popen(
                command,
                cwd=self.cwd,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def _program(self) -> list[str]:
        """Return the program and Hydra's flags as they were typed."""
        typed, path = program()[1:], self.cwd / sys.argv[0]
        if not path.exists():  # the program has changed the directory before it called Hydra
            path = Path(getattr(sys.modules["__main__"], "__file__", None) or path)
        return [*(typed if typed[0] == "-m" else [str(path)]), *flags()]

    def _as_command(self, arguments: list[str], work: Path) -> None:
        """In a fork: do what hydra.main does with a command line of these overrides."""
        os.chdir(self.cwd)
        os.environ[OF_CHECKLIST] = str(work)
        sys.argv = [sys.argv[0], *flags(), *arguments]
        before = set(sys.modules)
        name, hydra = self.config.hydra.job.config_name, GlobalHydra.instance().hydra
        try:
            run_and_report(lambda: hydra.run(config_name=name, task_function=self.task, overrides=arguments))
        finally:
            (work / IMPORTED).write_text("\n".join(libraries(before)), encoding="utf-8")

    def _note_imports(self, work: Path) -> None:
        path = work / IMPORTED
        self.to_import = path.read_text(encoding="utf-8").splitlines() if path.is_file() else []


def can_fork() -> bool:
    return hasattr(os, "fork")


def libraries(before: set[str]) -> list[str]:
    """Return the modules that have been imported since, as far as they are installed, and not the project's own."""
    from training_checklist.engines.own_code import is_installed, is_of_checks

    files = {name: getattr(module, "__file__", None) for name, module in list(sys.modules.items())}
    new = {name: file for name, file in files.items() if name not in before and isinstance(file, str)}
    return [name for name, file in new.items() if is_installed(file) or is_of_checks(file)]


def report_of(work: Path) -> Path:
    return work / "debug" / "report.json"


def wait_for_heir(work: Path) -> None:
    """Where a rank has died, wait for the report of another one, as long as one lives that may write it."""
    from training_checklist.experiments.distributed.presence import has_ended

    deadline = time.monotonic() + HEIR_SECONDS
    while not report_of(work).is_file() and time.monotonic() < deadline:
        signs = [json.loads(path.read_text(encoding="utf-8")) for path in work.rglob(".presence*.json")]
        if all(has_ended(sign["pid"]) for sign in signs):
            return
        time.sleep(STEP)


def wait(process: Any) -> None:
    while process.poll() is None:
        time.sleep(STEP)


def end(process: Any, has_group: bool) -> None:
    """End a process that has not ended, and those that it has started and left behind."""
    kill = os.killpg if has_group and hasattr(os, "killpg") else os.kill
    for number in (signal.SIGTERM, KILL):
        deadline = time.monotonic() + GRACE
        if process.poll() is None or kill is not os.kill:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                kill(process.pid, number)
        while process.poll() is None and time.monotonic() < deadline:
            time.sleep(STEP)


def end_started(work: Path) -> None:
    """End what an item has started in a session of its own, and has not lived to end: it would write on."""
    from training_checklist.experiments.distributed.presence import has_ended

    for note in work.rglob(f"*{STARTED}"):
        deadline = time.monotonic() + GRACE
        # It has ended, or the note was not written to its end.
        with contextlib.suppress(ProcessLookupError, PermissionError, ValueError):
            number = int(note.read_text(encoding="utf-8"))
            os.kill(number, KILL)
            while not has_ended(number) and time.monotonic() < deadline:
                time.sleep(STEP)


@contextlib.contextmanager
def signals_raise() -> Iterator[None]:
    """While it is entered, what ends this process raises SystemExit, so that what it has started ends, too."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def leave(number: int, frame: Any) -> None:
        for each in numbers:  # they may come twice, as from `timeout`: what ends is to put back what it has moved
            signal.signal(each, signal.SIG_IGN)
        sys.exit(128 + number)

    names = [name for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name)]
    numbers = [number for name in names if signal.getsignal(number := getattr(signal, name)) is signal.SIG_DFL]
    for number in numbers:
        signal.signal(number, leave)
    try:
        yield
    finally:
        for number in numbers:
            if signal.getsignal(number) is leave:
                signal.signal(number, signal.SIG_DFL)
