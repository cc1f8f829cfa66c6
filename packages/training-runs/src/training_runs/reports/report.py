"""report.html of a run or a sweep: one file that needs no network, made of what lies in the directory."""

import json
import shlex
import sys
from base64 import b64encode
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hydra import compose, initialize_config_dir
from hydra.core.global_hydra import GlobalHydra
from hydra.core.utils import JobReturn
from hydra.experimental.callback import Callback
from omegaconf import DictConfig, OmegaConf
from training_config.errors import ConfigError
from training_config.walk import walk

from training_runs.launching import ranks
from training_runs.records.rerun import describe
from training_runs.records.runs import RECORD, is_trial, read_record, replace_text, script, shortest

if TYPE_CHECKING:
    from jinja2 import Template

TEMPLATE = Path(__file__).with_name("report.html.jinja")
SPLITS = ("train", "val", "test")
FIRST = ("learning_curves",)  # of the figures; the others by name


class RunReport(Callback):
    """Hydra's callback that writes a report of every job, however it ended, after its debug items have reported.

    Not of one that was refused before it began: it may be refused in the directory of a run that has a report.
    """

    unwritten: DictConfig | None = None  # of the job that runs; Hydra calls nothing at the end of one that is stopped
    former: bytes | None = None  # the record that lay in the job's directory when it started

    def on_job_start(self, config: DictConfig, **kwargs: Any) -> None:
        RunReport.unwritten, RunReport.former = config, record_of(Path(config.hydra.runtime.output_dir))

    def on_job_end(self, config: DictConfig, job_return: JobReturn, **kwargs: Any) -> None:
        write_missing_report()


def write_missing_report() -> None:
    """Write the report of the job that runs in this process, if it has got as far as a record."""
    config, RunReport.unwritten = RunReport.unwritten, None
    if config is None or (ranks.launched() and ranks.rank()):
        return
    folder = Path(config.hydra.runtime.output_dir)
    if is_trial(folder):  # nobody comes to read
        return
    if record_of(folder) not in (None, RunReport.former):
        write_report(config)


def write_report(config: DictConfig) -> None:
    """Write the report of the job that was composed as `config`."""
    folder = Path(config.hydra.runtime.output_dir)
    [conf] = [source.path for source in config.hydra.runtime.config_sources if source.provider == "main"]
    try:
        write_run_report(folder, defaults(conf, config.hydra.job.config_name))
    except OSError as error:  # a full disk: the run itself has said so
        print(f"{folder}/report.html cannot be written: {error.strerror}", file=sys.stderr)


def record_of(run: Path) -> bytes | None:
    """Return the record of a run as it lies there, or None where there is none."""
    return (run / RECORD).read_bytes() if (run / RECORD).is_file() else None


@cache
def defaults(conf: str, config_name: str) -> DictConfig:
    """Return what this application composes without any override."""
    if GlobalHydra.instance().is_initialized():
        return compose(config_name)
    with initialize_config_dir(conf, version_base="1.3"):  # Hydra is gone already: the job was stopped
        return compose(config_name)


def write_run_report(run: Path, default: DictConfig) -> None:
    """Write the report of one run; its config is shown where it differs from `default`."""
    record = read_record(run)
    told = ("started", "seconds", "epochs", "steps", "data", "best_checkpoint", "error")
    machine = {name: record.get(name) for name in ("device", "world_size", "precision")} | record.get("hardware", {})
    # A job of a sweep that was refused knows none of these.
    software = {"python": record.get("python")} | record.get("packages", {})
    code = record.get("git") or {"git": "no commit"}
    again = (record["overrides"], [f"rerun={shortest(run)}"])
    write_page(
        run,
        record["state"],
        verdicts=verdicts(run),
        metrics=by_split(record["metrics"]),
        files=files(run),
        differences=differences(run, default),
        commands=[shlex.join(["python", script(), *words]) for words in again],
        rerun=describe(record["rerun"]) if "rerun" in record else None,
        run=known({name: record.get(name) for name in told}),
        environment=known(machine | software | code),
    )


def write_sweep_report(sweep: Path, rows: Sequence[Mapping[str, Any]], spread: Iterable[str], best: int | None) -> None:
    """Write the report of a sweep from the rows of its summary; each job that has one links to its own report.

    Args:
        sweep: its directory.
        rows: a job each.
        spread: a line for each setting that was tried with several seeds.
        best: the number of the best job, if any has come to a score.
    """
    records = {}
    for row in rows:
        with suppress(OSError, ConfigError):  # of a job that was killed or refused, or is damaged
            records[row["job"]] = read_record(sweep / str(row["job"]))
    commands = [record["command"] for record in records.values() if "command" in record]
    reported = {row["job"] for row in rows if (sweep / str(row["job"]) / "report.html").is_file()}
    winner = None
    if best is not None and "overrides" in records.get(best, {}):
        metrics = records[best]["metrics"]
        winner = {
            "job": best,
            "metrics": ", ".join(f"{name} {cell(metrics[name])}" for name in sorted(metrics)),
            "command": shlex.join(["python", script(), *records[best]["overrides"]]),
        }
    write_page(sweep, "sweep", jobs=rows, reported=reported, spread=spread, commands=commands[:1], best=winner)


def write_page(folder: Path, state: str, **sections: Any) -> None:
    """Write the report of `folder` with its figures; the template names the sections and leaves out empty ones."""
    text = template().render(name=folder.name, title=shortest(folder), state=state, figures=figures(folder), **sections)
    replace_text(folder / "report.html", text)


@cache
def template() -> "Template":
    from jinja2 import Environment  # not for those who only read a help text

    page = Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True, keep_trailing_newline=True)
    page.filters["cell"] = cell
    return page.from_string(TEMPLATE.read_text(encoding="utf-8"))


def by_split(metrics: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return a row for each metric with a column for each split: train, val, test, then others by name.

    A metric whose name has no slash is in a column of its own.
    """
    named = sorted((*reversed(split_of(name)), name) for name in metrics)
    found = {split for _, split, _ in named}
    splits = [split for split in SPLITS if split in found] + sorted(found.difference(SPLITS))
    rows = {metric: {"": metric} | dict.fromkeys(splits) for metric, *_ in named}
    for metric, split, name in named:
        rows[metric][split] = metrics[name]
    return list(rows.values())


def split_of(name: str) -> tuple[str, str]:
    split, slash, metric = name.partition("/")
    return (split, metric) if slash else ("value", name)


def files(run: Path) -> dict[str, str]:
    """Return what lies beside the report for whoever wants to read on, by what it is."""
    logs = {log.name: log.name for log in sorted(run.glob("*.log"))}
    beside = {"config": ".hydra/config.yaml", "overrides": ".hydra/overrides.yaml", "record": RECORD}
    return {name: path for name, path in (logs | beside).items() if (run / path).is_file()}


def known(values: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None}


def cell(value: Any) -> str:
    """Return a value of a table as people read it; floats at four digits."""
    return "" if value is None else f"{value:.4f}" if isinstance(value, float) else str(value)


def verdicts(run: Path) -> list[dict[str, Any]]:
    """Return what the run's debug items found."""
    path = run / "debug" / "report.json"
    return json.loads(path.read_text(encoding="utf-8"))["items"] if path.is_file() else []


def figures(folder: Path) -> dict[str, str]:
    """Return the figures of `folder`, encoded for the page itself, by their names."""
    paths = sorted((folder / "figures").glob("*.svg"))
    paths.sort(key=lambda path: FIRST.index(path.stem) if path.stem in FIRST else len(FIRST))
    return {path.stem: b64encode(path.read_bytes()).decode() for path in paths}


def differences(run: Path, default: DictConfig) -> dict[str, tuple[str, str]]:
    """Return the values that the run's config has and the defaults have not, and the other way round."""
    ours, theirs = texts(OmegaConf.load(run / ".hydra" / "config.yaml")), texts(default)
    pairs = {key: (ours.get(key, ""), theirs.get(key, "")) for key in ours | theirs}
    return {key: (here, there) for key, (here, there) in pairs.items() if here != there}


def texts(cfg: DictConfig) -> dict[str, str]:
    """Return every value under its dotted key as YAML has it: `${...}` is not followed, a list is one value."""
    values = {}
    for full_key, parent, key in walk(cfg):
        node = parent._get_node(key)
        if isinstance(parent, DictConfig) and not OmegaConf.is_dict(node):
            value = OmegaConf.to_container(node) if OmegaConf.is_list(node) else node._value()
            values[full_key] = value if isinstance(value, str) else json.dumps(value, default=str)
    return values
