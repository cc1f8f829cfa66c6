"""A sweep that is started again does not so much as compose the jobs that it has finished."""

import functools
from collections.abc import Callable, Sequence
from contextlib import suppress
from itertools import groupby
from pathlib import Path
from typing import Any

from hydra.core.plugins import Plugins
from hydra.core.utils import JobReturn, JobStatus
from hydra.plugins.launcher import Launcher
from hydra.plugins.sweeper import Sweeper
from omegaconf import DictConfig
from training_config.errors import ConfigError

from training_runs.records.runs import read_record

Record = dict[str, Any]
BY_NUMBER = "${hydra.job.num}"  # hydra.sweep.subdir: what is the directory of which job is known before it is composed
OWN = ("basic_sweeper.BasicSweeper", "basic_launcher.BasicLauncher")


def leave_out(config: DictConfig, tell: Callable[[Record], None]) -> None:
    """Have Hydra's own sweeper and launcher leave out the jobs of `config`'s sweep that an earlier start has finished.

    Two compositions for each take minutes where thousands are finished. Other launchers start every job, which then
    says itself that it is finished.

    Args:
        config: of the sweep.
        tell: called with the record of each.
    """
    folder = Path(config.hydra.sweep.dir)
    if config.hydra.sweep._get_node("subdir")._value() != BY_NUMBER:
        return
    # Hydra has loaded its plugins apart from what an import of their modules gives.
    classes = Plugins.instance().class_name_to_class
    sweeper_class, launcher_class = (classes[f"hydra._internal.core_plugins.{name}"] for name in OWN)
    validate, launch = map(original, (sweeper_class.validate_batch_is_legal, launcher_class.launch))

    @functools.wraps(validate)
    def validate_rest(sweeper: Sweeper, batch: Sequence[Sequence[str]]) -> None:
        first = sum(map(len, sweeper.overrides[: sweeper.batch_index - 1]))
        numbered = enumerate(batch, first)
        validate(sweeper, [overrides for number, overrides in numbered if not finished(folder, number, overrides)])

    @functools.wraps(launch)
    def launch_rest(launcher: Launcher, job_overrides: Sequence[Sequence[str]], initial_job_idx: int) -> list:
        returns: list[JobReturn] = []
        numbered = enumerate(job_overrides, initial_job_idx)
        for done, jobs in groupby(numbered, key=lambda job: finished(folder, *job) is not None):
            jobs = list(jobs)
            if not done:
                returns += launch(launcher, [overrides for _, overrides in jobs], jobs[0][0])
                continue
            for number, overrides in jobs:
                record = finished(folder, number, overrides)
                tell(record)
                value = record["metrics"].get(config.monitor)
                returns.append(JobReturn(overrides=overrides, status=JobStatus.COMPLETED, _return_value=value))
            which = str(jobs[0][0]) if len(jobs) == 1 else f"{jobs[0][0]} to {jobs[-1][0]}"
            print(f"{folder}/{which} is finished; it is not run again")
        return returns

    sweeper_class.validate_batch_is_legal = validate_rest
    launcher_class.launch = launch_rest


def original(method: Callable[..., Any]) -> Callable[..., Any]:
    """Return a method of Hydra's as it was before another sweep of this process."""
    return getattr(method, "__wrapped__", method)


def finished(sweep: Path, number: int, overrides: Sequence[str]) -> Record | None:
    """Return the record of a job that an earlier start has finished with the same overrides, or None."""
    with suppress(OSError, ConfigError):  # it was never begun, or its record is damaged, which the job itself will say
        record = read_record(sweep / str(number))
        if record["state"] == "finished" and record["overrides"] == list(overrides):
            return record
    return None
