"""Every item of the checklist, one after the other, in one table."""

import contextlib
import json
import logging
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from hydra._internal.callbacks import Callbacks
from hydra.core.global_hydra import GlobalHydra
from hydra.core.hydra_config import HydraConfig
from hydra.core.utils import JobReturn, JobStatus, run_job
from hydra.experimental.callback import Callback
from hydra.types import HydraContext, RunMode, TaskFunction
from omegaconf import DictConfig, OmegaConf
from training_config.overrides import given, job_settings, key_of, quoted
from training_config.secret_values import redact_text, secret_values

from training_checklist.diagnosis.diagnose import print_traceback
from training_checklist.ending import OF_CHECKLIST, ToolError
from training_checklist.finding import Verdict
from training_checklist.group import ALWAYS, group_name, group_of
from training_checklist.hydra_callbacks.one_device import force_one_device, without_devices
from training_checklist.hydra_callbacks.report import end_job, end_with_exit_code, refuse
from training_checklist.reporting.files import write_report
from training_checklist.reporting.notes import notes_on
from training_checklist.reporting.terminal import print_progress, print_report
from training_checklist.reporting.wording import program
from training_checklist.settings import read_settings

CALLBACK = "debug"  # key of the items' Hydra callback
SEVERAL = "distributed"  # the item that examines several processes


class Checklist(Callback):
    """Hydra's callback that runs each item as a job of its own before the training function is called.

    The job that was started itself trains nothing: `callbacks.debug_checklist` ends it.

    Args:
        items: names of options of conf/debug/, in their order, each with what must have succeeded before: null, or
            the item without whose training step this one means nothing.
        further: items of the project's own, likewise; they come last.
        processes: items that need processes of their own, and so a command of their own.
        only: the items to run, or None for all.
        leave_out: items that are not run, each with the reason, which the report shows.
    """

    def __init__(
        self,
        items: dict[str, str | None],
        further: dict[str, str | None],
        processes: list[str],
        only: list[str] | None,
        leave_out: dict[str, str],
    ) -> None:
        self.items = {item: needed for item, needed in {**items, **further}.items() if only is None or item in only}
        self.processes = list(processes)
        self.leave_out = dict(leave_out)

    def on_run_start(self, config: DictConfig, **kwargs: Any) -> None:
        force_one_device(config)  # of the job itself, which trains nothing

    def on_job_start(self, config: DictConfig, task_function: TaskFunction, **kwargs: Any) -> None:
        self.settings = refuse(*read_settings(config))
        self.verdicts: list[Verdict] = []
        self.crashed: set[str] = set()
        self.error: Exception | None = None
        self.silence = contextlib.ExitStack()
        folder = Path(config.hydra.runtime.output_dir) / "debug"
        try:
            for item, needed in self.items.items():
                verdict = self._run(item, needed, folder / item, config, task_function)
                self.verdicts.append(verdict)
                print_progress(verdict)
            # What the job itself says, which does nothing.
            folder.mkdir(parents=True, exist_ok=True)
            output = self.silence.enter_context((folder / "output.log").open("w", encoding="utf-8"))
            self.silence.enter_context(silenced(output))
        except Exception as error:  # Hydra would make a warning of it, and go on to train
            self.error = error

    def on_job_end(self, config: DictConfig, job_return: JobReturn, **kwargs: Any) -> None:
        self.silence.close()
        folder = Path(config.hydra.runtime.output_dir) / "debug"
        # What stops the job itself has stopped its items, and is in their verdicts.
        job_return.status, job_return.return_value = JobStatus.COMPLETED, None
        try:
            if self.error is not None:
                raise self.error
            notes = notes_on(self.verdicts, self.settings)
            write_report(folder, self.verdicts, notes, self.settings.rules)
            print_report(self.verdicts, folder, notes)
            end_job(job_return, self.verdicts, None)
        except Exception as error:
            print_traceback(error)
            told = f"training-checklist itself failed: {type(error).__name__}: {error}"
            print(told, file=sys.stderr)
            job_return.status, job_return.return_value = JobStatus.FAILED, ToolError(told)

    def on_run_end(self, config: DictConfig, job_return: JobReturn, **kwargs: Any) -> None:
        end_with_exit_code(job_return._return_value)

    def _run(
        self, item: str, needed: str | None, folder: Path, config: DictConfig, task_function: TaskFunction
    ) -> Verdict:
        if item in self.leave_out:
            return Verdict(item, "", skipped=f"left out by checks.checklist.leave_out: {self.leave_out[item]}")
        if needed in self.crashed:
            return Verdict(item, "", skipped=f"not run: the training step itself fails, see {needed}")
        if folder.exists():
            raise FileExistsError(f"{os.path.relpath(folder)} is there already; choose another hydra.run.dir")
        folder.mkdir(parents=True)
        started = time.monotonic()
        given = replaced(config, item)
        # What several processes are asked for with is meant for training, and for the one item that is about them.
        given = given if item == SEVERAL else without_devices(given)
        arguments = [*given, *(f"{key}={quoted(str(folder))}" for key in keys_of_directory(config))]
        reason, code = "it was stopped before it could judge", None
        with (folder / "output.log").open("w", encoding="utf-8") as output:
            try:
                if item in self.processes:
                    code = run_command(arguments, config, output)
                else:
                    run_here(arguments, config, task_function, output)
            except Exception as error:  # of the composition: what a job raises is in its report
                reason = redact_text(f"{type(error).__name__}: {error}", secret_values(config))
        path = folder / "debug" / "report.json"
        if path.is_file():
            report = json.loads(path.read_text(encoding="utf-8"))
            if report["crashed"]:
                self.crashed.add(item)
            verdict = Verdict.from_dict(report["items"][0])
        else:
            ended = reason if code is None else f"its process ended with exit code {code}"
            error = f"{item} ended without a report: {ended}\nsee {os.path.relpath(folder / 'output.log')}"
            verdict = Verdict(item, "", error=error)
        verdict.seconds = round(time.monotonic() - started, 2)
        return verdict


def keys_of_directory(config: DictConfig) -> list[str]:
    """Return the keys that say where a run writes: Hydra's, and the project's own that Hydra's repeats."""
    raw = str(OmegaConf.to_container(config.hydra.run, resolve=False)["dir"])
    repeated = re.fullmatch(r"\$\{([A-Za-z_][\w.]*)\}", raw)
    names = [repeated[1]] if repeated is not None and not repeated[1].startswith("hydra") else []
    # Of an item of the checklist, both are on its command line.
    names += [key_of(text) for text in given(config, "task") if text.partition("=")[2] == quoted(raw)]
    own = (name.lstrip("+") for name in names)
    return ["hydra.run.dir", *(name for name in own if isinstance(OmegaConf.select(config, name, default=None), str))]


def replaced(config: DictConfig, item: str) -> list[str]:
    """Return the overrides of this job with `item` in the place of the checklist, without what is a sweep's."""
    kept = [text for text in job_settings(config) if not key_of(text).startswith(f"hydra.callbacks.{CALLBACK}")]
    changed = [turned_to(item, text) if is_group(text) else text for text in given(config, "task")]
    # What a project's Trainer lacks is added with one +, and refused where the item sets it too.
    changed = [f"+{text}" if text.startswith("+trainer.") else text for text in changed]
    return [*changed, *kept]


def is_group(override: str) -> bool:
    return key_of(override) in (group_name(), ALWAYS)


def turned_to(item: str, override: str) -> str:
    """Return an override that turns `item` on, in the place of one that turns on another."""
    hidden = ALWAYS in (key_of(override), group_of(item))
    return f"+{ALWAYS}={item}" if hidden else f"{override.partition('=')[0]}={item}"


def run_here(arguments: list[str], config: DictConfig, task_function: TaskFunction, output: Any) -> None:
    """Run one item in this process; what it says goes to `output`."""
    hydra = GlobalHydra.instance().hydra
    with silenced(output):
        cfg = hydra.compose_config(config.hydra.job.config_name, arguments, run_mode=RunMode.RUN)
        if cfg.hydra.callbacks[CALLBACK].get("one_device"):
            force_one_device(cfg)
        context = HydraContext(config_loader=hydra.config_loader, callbacks=Callbacks(cfg))
        run_job(task_function, cfg, job_dir_key="hydra.run.dir", job_subdir_key=None, hydra_context=context)


def run_command(arguments: list[str], config: DictConfig, output: Any) -> int:
    """Run one item with the command line that this process was started with; return its exit code."""
    sources = {source.provider: source.path for source in HydraConfig.get().runtime.config_sources}
    where = ["--config-dir", sources["command-line"]] if "command-line" in sources else []
    command = [sys.executable, *program()[1 : 3 if program()[1] == "-m" else 2]]
    command += ["--config-name", config.hydra.job.config_name, *where, *arguments]
    return subprocess.run(
        command,
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=subprocess.STDOUT,
        env={**os.environ, OF_CHECKLIST: "1"},
    ).returncode


@contextlib.contextmanager
def silenced(output: Any) -> Iterator[None]:
    """Send what is printed and logged to `output`, and put logging back as it was."""
    root = logging.getLogger()
    handlers, level, disabled = root.handlers[:], root.level, logging.root.manager.disable
    redirect_handlers(sys.stderr, output)
    try:
        with contextlib.redirect_stdout(output), contextlib.redirect_stderr(output):
            yield
    finally:
        redirect_handlers(output, sys.stderr)
        for handler in set(root.handlers) - set(handlers):
            handler.close()
        root.handlers[:] = handlers
        root.setLevel(level)
        logging.disable(disabled)


def redirect_handlers(old: Any, new: Any) -> None:
    """Let every logger's handler that writes to `old` write to `new`: Lightning's keep the stream of their making."""
    loggers = [logger for logger in logging.root.manager.loggerDict.values() if isinstance(logger, logging.Logger)]
    for handler in [handler for logger in loggers for handler in logger.handlers]:
        if isinstance(handler, logging.StreamHandler) and handler.stream is old:
            with contextlib.suppress(AttributeError):  # a stream without a setter finds the present one by itself
                handler.setStream(new)
