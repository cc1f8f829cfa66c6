"""A sweep starts the jobs that it has not finished: those without an end, and again those that were lost."""

import functools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from inspect import unwrap
from itertools import groupby
from pathlib import Path
from typing import Any

from hydra.core.plugins import Plugins
from hydra.core.utils import JobReturn, JobStatus
from hydra.plugins.launcher import Launcher
from omegaconf import DictConfig

from training_runs.records.runs import known_record
from training_runs.sweeps.lost_jobs import wait_for_all

Record = dict[str, Any]
BY_NUMBER = "${hydra.job.num}"  # hydra.sweep.subdir: what is the directory of which job is known before it is composed


def start_unfinished(config: DictConfig, retries: int) -> None:
    """Have Hydra leave out the jobs of `config`'s sweep that an earlier start has finished, and retry the others.

    Args:
        config: of the sweep.
        retries: how often a job that did not finish is started again; not one that was refused.
    """
    if config.hydra.sweep._get_node("subdir")._value() != BY_NUMBER:
        return
    folder = Path(config.hydra.sweep.dir)
    # Hydra has loaded its plugins apart from what an import of their modules gives.
    launcher_class = Plugins.instance().class_name_to_class[config.hydra.launcher._target_]
    launch = unwrap(launcher_class.launch)  # as it was before another sweep of this process
    wait_for_all(launcher_class.__name__)

    @functools.wraps(launch)
    def launch_rest(
        launcher: Launcher, job_overrides: Sequence[Sequence[str]], initial_job_idx: int
    ) -> list[JobReturn]:
        jobs = dict(enumerate(job_overrides, initial_job_idx))
        done = finished(folder, jobs)
        for some in runs_of(done):
            which = str(some[0]) if len(some) == 1 else f"{some[0]} to {some[-1]}"
            print(f"{folder}/{which} is finished; it is not run again")

        def launch_jobs(numbers: list[int]) -> dict[int, JobReturn]:
            asked = [jobs[number] for number in numbers]
            try:
                ends = launch(launcher, asked, numbers[0])
            except Exception as error:  # joblib ends all jobs when one is lost
                ends = [JobReturn(status=JobStatus.FAILED, _return_value=error) for _ in asked]
            return dict(zip(numbers, ends, strict=True))

        returns = launch_to_end(launch_jobs, [number for number in jobs if number not in done], folder, retries)
        returns |= {
            number: JobReturn(
                jobs[number], status=JobStatus.COMPLETED, _return_value=record["metrics"].get(config.monitor)
            )
            for number, record in finished(folder, jobs).items()
        }
        return [returns[number] for number in jobs]

    launcher_class.launch = launch_rest


def launch_to_end(
    launch: Callable[[list[int]], dict[int, JobReturn]], jobs: list[int], folder: Path, retries: int
) -> dict[int, JobReturn]:
    """Launch `jobs`, and those again that began and did not finish, until each has finished or begun so often."""
    returns: dict[int, JobReturn] = {}
    first = last = {number: starts_of(folder / str(number)) for number in jobs}
    while jobs:
        for some in runs_of(jobs):
            returns |= launch(some)
        starts = {number: starts_of(folder / str(number)) for number in jobs}
        if all(starts[number] == last[number] for number in jobs):  # all were refused, or there is no such machine
            break
        last = starts
        jobs = [each for each in jobs if starts[each] - first[each] <= retries and is_unfinished(folder / str(each))]
        if jobs:
            print(f"{folder}: started again, since it did not finish: job {', '.join(map(str, jobs))}")
    return returns


def finished(sweep: Path, jobs: Mapping[int, Sequence[str]]) -> dict[int, Record]:
    """Return the records of those of `jobs`, overrides by number, that were finished with the same overrides."""
    records = {}
    for number, overrides in jobs.items():
        record = known_record(sweep / str(number))  # of a damaged one the job itself will tell
        if record and record["state"] == "finished" and record["overrides"] == list(overrides):
            records[number] = record
    return records


def starts_of(job: Path) -> int:
    """Return how often a job has begun."""
    return len(known_record(job).get("starts", ()))


def is_unfinished(job: Path) -> bool:
    """Whether a job that its launcher has come back from did not finish, and was not refused, which it would be again.

    One without a record was lost before it wrote it.
    """
    record = known_record(job)
    return not record or (record["state"] != "finished" and "starts" in record)


def runs_of(numbers: Iterable[int]) -> Iterator[list[int]]:
    """Yield `numbers` cut where one does not follow the other."""
    placed = enumerate(sorted(numbers))
    for _, some in groupby(placed, key=lambda pair: pair[1] - pair[0]):
        yield [number for _, number in some]
