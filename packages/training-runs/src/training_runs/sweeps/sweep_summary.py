"""One table over the jobs of a sweep: in the terminal, as summary.csv and summary.md, with a figure in report.html.

Written after every multirun, and again by whoever calls `summarise`. It reads what the jobs have left on disk, so that
failed, interrupted and finished jobs are all in it.
"""

import csv
import logging
import sys
import traceback
from pathlib import Path
from statistics import mean, stdev
from typing import Any

from hydra.core.utils import JobReturn, JobStatus
from hydra.experimental.callback import Callback
from hydra.types import RunMode
from omegaconf import DictConfig, OmegaConf
from training_config.errors import ConfigError
from training_config.overrides import task_overrides
from training_config.secret_values import redact_text, secret_values

from training_runs import drawing
from training_runs.records.runs import command_line, is_alive, known_record, write_record
from training_runs.reports.report import cell, verdicts, write_sweep_report
from training_runs.sweeps.unfinished_jobs import start_unfinished

REPEATS = ("seed", "fold")  # keys that make another run of one setting
NETWORK = logging.getLogger("pytorch_lightning.callbacks.model_summary")
METRICS = ("val", "test")  # the splits whose metrics are columns


class SweepSummary(Callback):
    """Hydra's callback that remembers where the sweep of this process lies; `entry_point.run` ends it.

    Args:
        retries: how often a job that began and did not finish is started again. Where it has a checkpoint it goes on.
    """

    folder: Path | None = None
    ended: JobReturn | None = None  # of the job before

    def __init__(self, retries: int = 0) -> None:
        self.retries = retries

    def on_multirun_start(self, config: DictConfig, **kwargs: Any) -> None:
        SweepSummary.folder = Path(config.hydra.sweep.dir)
        SweepSummary.folder.mkdir(parents=True, exist_ok=True)  # Optuna's database lies in it from the start
        drawing.in_sweep = True
        check_search(config)
        start_unfinished(config, self.retries)

    def on_job_start(self, config: DictConfig, **kwargs: Any) -> None:
        """Drop of the job before what Hydra would keep until the sweep ends: two configs, and what a failure held."""
        ended, SweepSummary.ended = SweepSummary.ended, None
        if ended is None:
            return
        ended.cfg = ended.hydra_cfg = None
        error = ended._return_value
        while isinstance(error, BaseException):
            traceback.clear_frames(error.__traceback__)
            error = error.__cause__ or error.__context__

    def on_job_end(self, config: DictConfig, job_return: JobReturn, **kwargs: Any) -> None:
        """Record why a job was refused, which came too early for it to record that itself."""
        if config.hydra.mode != RunMode.MULTIRUN:
            return
        SweepSummary.ended = job_return
        NETWORK.setLevel(logging.WARNING)  # the first job has said what the network is made of
        folder = Path(config.hydra.runtime.output_dir)
        if job_return.status != JobStatus.FAILED or "starts" in known_record(folder):
            return
        error = f"{type(job_return._return_value).__name__}: {job_return._return_value}"
        record = {"state": "failed", "command": command_line(), "overrides": task_overrides(), "metrics": {}}
        write_record(folder, record | {"error": redact_text(error, secret_values(config))})

    @classmethod
    def end(cls) -> None:
        """Summarise the sweep of this process, if there is one."""
        if cls.folder is None:
            return
        folder, cls.folder, cls.ended = cls.folder, None, None
        drawing.in_sweep = False
        NETWORK.setLevel(logging.NOTSET)
        summarise(folder)


def check_search(config: DictConfig) -> None:
    """Refuse a search by Optuna where one has left jobs: hydra-optuna-sweeper 1.3.0 numbers its own from 0 again."""
    folder, sweeper = Path(config.hydra.sweep.dir), config.hydra.sweeper
    if str(sweeper.get("_target_")).endswith(".OptunaSweeper") and (folder / "0").is_dir():
        sys.exit(  # because Hydra only warns of what a callback raises
            f"hydra.sweep.dir={folder} holds the jobs of a search; leave it out, and go on with its trials in a new "
            f"directory: {search_goes_on(sweeper.get('storage'))}"
        )


def search_goes_on(storage: str) -> str:
    """Return what to add to a search's command so that a new one goes on with its trials."""
    return f"hydra.sweeper.storage={storage}"


def find_sweep(name: str | Path) -> Path:
    """Return the directory of a sweep: `name` itself, or the newest one below multirun/ for `last`.

    Raises:
        ConfigError: there is no such sweep.
    """
    if str(name) == "last":
        sweeps = [path.parents[1] for path in Path("multirun").glob("**/0/.hydra")]
        if not sweeps:
            raise ConfigError("summary=last: there is no sweep in multirun/ yet; start one with python train.py -m ...")
        return max(sweeps, key=lambda folder: (folder / "0").stat().st_mtime)
    if not (Path(str(name)) / "0" / ".hydra").is_dir():
        raise ConfigError(f"summary={name} is not the directory of a sweep: it has no job 0; try summary=last")
    return Path(str(name))


def summarise(folder: Path) -> list[dict[str, Any]]:
    """Write and print the summary of the sweep in `folder`; return its rows, a job each, in order."""
    jobs = sorted((path for path in folder.iterdir() if path.name.isdigit()), key=lambda path: int(path.name))
    if not jobs:
        return []
    rows = [read_job(job) for job in jobs]
    monitor, mode = read_objective(jobs)
    scored = [row for row in rows if row["metrics"].get(monitor) is not None]
    best = (max if mode == "max" else min)(scored, key=lambda row: row["metrics"][monitor], default=None)
    judged = any(row["verdicts"] for row in rows)
    keys, metrics = swept_keys(rows), metric_names(rows)
    table = [table_row(row, keys, metrics, row is best, judged) for row in rows]
    with (folder / "summary.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, fieldnames=list(table[0]))
        writer.writeheader()
        writer.writerows(table)
    spread = over_repeats(rows, monitor)
    (folder / "summary.md").write_text(markdown(folder, table, spread), encoding="utf-8")
    draw(folder / "figures", scored, keys, monitor, best)
    write_sweep_report(folder, table, spread, None if best is None else best["job"])
    print_table(folder, table, spread, monitor)
    return rows


def read_job(job: Path) -> dict[str, Any]:
    """Return number, overrides, state, seconds and metrics of one job, whatever became of it."""
    overrides = job / ".hydra" / "overrides.yaml"
    given = OmegaConf.to_container(OmegaConf.load(overrides)) if overrides.is_file() else []
    judged = read_verdicts(job)
    # A job that wrote no record was checked, not trained, or stopped by a mistake in its config.
    record = known_record(job) or {"state": "checked" if judged else "failed", "metrics": {}}
    return {
        "job": int(job.name),
        "overrides": dict(text.lstrip("+").partition("=")[::2] for text in given),
        "state": "killed" if record["state"] == "running" and not is_alive(job) else record["state"],
        "seconds": None if "seconds" not in record else round(record["seconds"]),
        "metrics": record["metrics"],
        "error": record.get("error"),
        "verdicts": judged,
    }


def read_verdicts(job: Path) -> str:
    """Return what a job's debug items came to, such as "overfit failed", or "" where none was on."""
    return ", ".join(f"{item['item']} {item['verdict']}" for item in verdicts(job))


def read_objective(jobs: list[Path]) -> tuple[str, str]:
    """Return what the jobs monitor, and whether more of it is better."""
    cfg = OmegaConf.load(jobs[0] / ".hydra" / "config.yaml")
    return cfg.monitor, cfg.mode


def swept_keys(rows: list[dict[str, Any]]) -> list[str]:
    """Return the keys whose overrides are not the same in all jobs."""
    keys = dict.fromkeys(key for row in rows for key in row["overrides"])
    return [key for key in keys if len({row["overrides"].get(key) for row in rows}) > 1]


def metric_names(rows: list[dict[str, Any]]) -> list[str]:
    names = {name for row in rows for name in row["metrics"] if name.partition("/")[0] in METRICS}
    return sorted(names, key=lambda name: (METRICS.index(name.partition("/")[0]), name))


def table_row(row: dict[str, Any], keys: list[str], metrics: list[str], best: bool, verdicts: bool) -> dict[str, Any]:
    return (
        {"job": row["job"]}
        | {key: row["overrides"].get(key, "") for key in keys}
        | {"state": row["state"], "seconds": row["seconds"]}
        | {name: row["metrics"].get(name) for name in metrics}
        | ({"verdicts": row["verdicts"]} if verdicts else {})
        | {"best": "*" if best else "", "error": row["error"]}
    )


def over_repeats(rows: list[dict[str, Any]], monitor: str) -> list[str]:
    """Return a line with mean and deviation of `monitor` for all jobs that differ in seed or fold alone.

    The deviation is the standard deviation of a sample (n - 1). There is no line where neither was swept.
    """
    keys = swept_keys(rows)
    repeats = [key for key in REPEATS if key in keys]
    scores: dict[str, list[float]] = {}
    for row in rows if repeats else ():
        setting = " ".join(f"{key}={row['overrides'].get(key, '')}" for key in keys if key not in repeats)
        if row["metrics"].get(monitor) is not None:
            scores.setdefault(setting or "all jobs", []).append(row["metrics"][monitor])
    named = repeats[0] + "s" if len(repeats) == 1 else "seeds and folds"
    return [
        f"{setting}: {monitor} {mean(tried):.4f} ± {stdev(tried):.4f} over {len(tried)} {named}"
        for setting, tried in scores.items()
        if len(tried) > 1
    ]


def rounded(text: str) -> str:
    """Return `text`, a long number rounded to four digits: a sampler's have seventeen."""
    try:
        return f"{float(text):.4g}" if len(text) > 8 else text
    except ValueError:
        return text


def markdown(folder: Path, table: list[dict[str, Any]], spread: list[str]) -> str:
    header = list(table[0])
    lines = [f"# {folder.name}", "", f"| {' | '.join(header)} |", f"|{' --- |' * len(header)}"]
    # An error may have several lines, and a line in it columns of its own.
    rows = [[" ".join(cell(value).split()).replace("|", "\\|") for value in row.values()] for row in table]
    lines += [f"| {' | '.join(row)} |" for row in rows]
    return "\n".join([*lines, "", *(f"- {line}" for line in spread)]) + "\n"


def print_table(folder: Path, table: list[dict[str, Any]], spread: list[str], monitor: str) -> None:
    from rich.console import Console  # not for those who only read a help text
    from rich.measure import Measurement
    from rich.table import Table

    console = Console()
    shown = Table(title=f"sweep {folder}", title_justify="left")
    # The files have every metric; here, what is monitored and its twin on the test set, so that a line stays a line.
    twins = {f"{split}/{monitor.partition('/')[2]}" for split in METRICS}
    names = [name for name in table[0] if name != "error" and (name.partition("/")[0] not in METRICS or name in twins)]
    for name in names:
        shown.add_column(name.rpartition(".")[2], no_wrap=True)
    for row in table:
        colour = {"failed": "red", "interrupted": "magenta"}.get(row["state"], "")
        shown.add_row(*(rounded(cell(row[name])) for name in names), style="bold green" if row["best"] else colour)
    unbounded = console.options.update(max_width=10_000)
    console.width = max(console.width, Measurement.get(console, unbounded, shown).maximum)  # a cut number is no number
    console.print(shown)
    for row in [row for row in table if row["error"]]:
        reason = f"  job {row['job']}: {row['error'].splitlines()[0]}"
        console.print(reason, style="red", highlight=False, markup=False)
    for line in spread:
        console.print(f"  {line}", highlight=False)
    unfinished = sum(row["state"] not in ("finished", "checked") for row in table)
    if unfinished:
        print(f"  {unfinished} of the {len(table)} jobs that began did not finish; the same command with")
        if (folder / "optuna.db").is_file():  # its sweeper numbers the jobs of a start from 0
            print(f"  {search_goes_on(f'sqlite:///{folder}/optuna.db')}")
            print("  goes on with the search, in a new directory")
        else:
            print(f"  hydra.sweep.dir={folder}")
            print("  runs what has not finished and nothing else")


def draw(folder: Path, scored: list[dict[str, Any]], keys: list[str], monitor: str, best: dict[str, Any]) -> None:
    """Plot the monitored metric of every job that has one against what was swept."""
    if not scored or not keys:
        return
    from training_runs.figures import save
    from training_runs.sweeps import sweep_figures  # matplotlib, which only the end of a sweep needs

    overrides = [{key: row["overrides"].get(key, "") for key in keys} for row in scored]
    scores = [row["metrics"][monitor] for row in scored]
    save(sweep_figures.swept_keys(overrides, scores, monitor, scored.index(best)), folder / "swept_keys")
