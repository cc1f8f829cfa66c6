"""report.html of a run or a sweep: one file that needs no network, made of what lies in the directory."""

import json
import shlex
from base64 import b64encode
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from html import escape
from pathlib import Path
from typing import Any

from hydra import compose, initialize_config_dir
from hydra.core.global_hydra import GlobalHydra
from hydra.core.utils import JobReturn
from hydra.experimental.callback import Callback
from omegaconf import DictConfig, OmegaConf

from . import ranks
from .config_check import walk
from .rerun import describe
from .runs import RECORD, read_record, shortest

REPORT = "report.html"
FIRST = ("learning_curves", "swept_keys", "parallel_coordinates")  # of the figures; the others by name
STYLE = """
body { margin: 0 auto; max-width: 60rem; padding: 1rem; font: 1rem/1.5 system-ui, sans-serif; color: #222; }
h1 { font-size: 1.2rem; overflow-wrap: anywhere; }
h2 { font-size: 1.1rem; margin-top: 2rem; border-bottom: 1px solid #ddd; }
div { overflow-x: auto; }
table { border-collapse: collapse; font-size: .9rem; font-variant-numeric: tabular-nums; }
th, td { padding: .2rem .8rem .2rem 0; text-align: left; vertical-align: top; border-bottom: 1px solid #eee; }
td { overflow-wrap: anywhere; min-width: 4rem; }
pre { white-space: pre-wrap; overflow-wrap: anywhere; padding: .6rem; background: #f5f5f5; font-size: .85rem; }
img { max-width: 100%; height: auto; }
.finished, .passed { color: #00684d; }
.failed { color: #b00020; }
.interrupted, .warning { color: #8a5a00; }
"""
PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<style>{style}</style>
</head>
<body>
{body}
</body>
</html>
"""


class RunReport(Callback):
    """Hydra's callback that writes a report of every job, however it ended, after its debug items have reported."""

    unwritten: DictConfig | None = None  # of the job that runs; Hydra calls nothing at the end of one that is stopped

    def on_job_start(self, config: DictConfig, **kwargs: Any) -> None:
        RunReport.unwritten = config

    def on_job_end(self, config: DictConfig, job_return: JobReturn, **kwargs: Any) -> None:
        write_missing_report()


def write_missing_report() -> None:
    """Write the report of the job that runs in this process, if it has got as far as a record."""
    config, RunReport.unwritten = RunReport.unwritten, None
    if config is None or (ranks.launched() and ranks.rank()):
        return
    folder = Path(config.hydra.runtime.output_dir)
    if (folder / RECORD).is_file():
        [conf] = [source.path for source in config.hydra.runtime.config_sources if source.provider == "main"]
        write_run_report(folder, defaults(conf, config.hydra.job.config_name))


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
    same, again = (
        shlex.join(["python", "train.py", *words]) for words in (record["overrides"], [f"rerun={shortest(run)}"])
    )
    told = ("started", "seconds", "epochs", "steps", "data", "best_checkpoint", "error")
    machine = {name: record.get(name) for name in ("device", "world_size", "precision")} | record.get("hardware", {})
    software = {"python": record["python"]} | record["packages"] | (record["git"] or {"git": "no commit"})
    page = [
        heading(run, record["state"]),
        section("Verdicts", verdicts(run)),
        section("Metrics", facts(dict(sorted(record["metrics"].items())))),
        section("Figures", figures(run)),
        section("Config that differs from the defaults", differences(run, default)),
        section("Run it again", f"<pre>{escape(same)}\n{escape(again)}</pre>"),
        section("Compared with the run that it repeats", facts(describe(record["rerun"]) if "rerun" in record else {})),
        section("Run", facts({name: record.get(name) for name in told})),
        section("Environment", facts(machine | software)),
    ]
    write(run / REPORT, page)


def write_sweep_report(sweep: Path, rows: Sequence[Mapping[str, Any]], spread: Iterable[str]) -> None:
    """Write the report of a sweep from the rows of its summary; each job has a link to its own report."""
    records = [read_record(job) for job in (sweep / str(row["job"]) for row in rows) if (job / RECORD).is_file()]
    jobs = [[f'<a href="{row["job"]}/{REPORT}">{row["job"]}</a>', *map(cell, list(row.values())[1:])] for row in rows]
    page = [
        heading(sweep, "sweep"),
        section("Jobs", table(list(rows[0]), jobs)),
        section("Over seeds", "".join(f"<p>{escape(line)}</p>" for line in spread)),
        section("Figures", figures(sweep)),
        section("Run it again", f"<pre>{escape(records[0]['command'])}</pre>" if records else ""),
    ]
    write(sweep / REPORT, page)


def heading(folder: Path, state: str) -> str:
    return f'<h1>{escape(str(shortest(folder)))} <span class="{state}">{state}</span></h1>'


def section(title: str, content: str) -> str:
    """Return nothing for a section that would be empty."""
    return f"<h2>{title}</h2>\n<div>{content}</div>" if content else ""


def table(header: Sequence[str], rows: Iterable[Iterable[str]]) -> str:
    """Return a table of cells that are HTML already, or nothing where there are no rows."""
    head = f"<tr>{''.join(f'<th>{escape(name)}</th>' for name in header)}</tr>" if header else ""
    body = "".join(f"<tr>{''.join(f'<td>{content}</td>' for content in row)}</tr>\n" for row in rows)
    return f"<table>{head}{body}</table>" if body else ""


def facts(values: Mapping[str, Any]) -> str:
    """Return names and values, without those that are None."""
    return table([], ([escape(name), cell(value)] for name, value in values.items() if value is not None))


def cell(value: Any) -> str:
    return "" if value is None else f"{value:.4f}" if isinstance(value, float) else escape(str(value))


def verdicts(run: Path) -> str:
    """Return what the run's debug items found, with the findings of those that did not pass."""
    path = run / "debug" / "report.json"
    if not path.is_file():
        return ""
    rows = []
    for item in json.loads(path.read_text(encoding="utf-8"))["items"]:
        told = [f"{finding['what']}; {finding['where']}; {finding['fix']}" for finding in item["findings"]]
        verdict = f'<span class="{item["verdict"]}">{item["verdict"]}</span>'
        said = "<br>".join(map(escape, told or [item["skipped"] or item["seen"]]))
        rows.append([escape(item["item"]), verdict, said])
    return table([], rows)


def figures(folder: Path) -> str:
    """Return the figures of `folder`, inside of the page itself."""
    paths = sorted((folder / "figures").glob("*.svg"))
    paths.sort(key=lambda path: FIRST.index(path.stem) if path.stem in FIRST else len(FIRST))
    return "\n".join(
        f'<p><img alt="{path.stem}" src="data:image/svg+xml;base64,{b64encode(path.read_bytes()).decode()}"></p>'
        for path in paths
    )


def differences(run: Path, default: DictConfig) -> str:
    """Return the values of the run's config that the defaults have not, and the other way round."""
    ours, theirs = flat(OmegaConf.load(run / ".hydra" / "config.yaml")), flat(default)
    keys = [key for key in ours | theirs if ours.get(key, "") != theirs.get(key, "")]
    rows = ([escape(key), escape(ours.get(key, "")), escape(theirs.get(key, ""))] for key in keys)
    return table(["key", "here", "default"], rows)


def flat(cfg: DictConfig) -> dict[str, str]:
    """Return every value under its dotted key as YAML has it: `${...}` is not followed."""
    values = {}
    for full_key, parent, key in walk(cfg):
        node = parent._get_node(key)
        if isinstance(parent, DictConfig) and not OmegaConf.is_dict(node):
            value = OmegaConf.to_container(node) if OmegaConf.is_list(node) else node._value()
            values[full_key] = value if isinstance(value, str) else json.dumps(value, default=str)
    return values


def write(path: Path, page: Iterable[str]) -> None:
    body = "\n".join(part for part in page if part)
    path.write_text(PAGE.format(title=escape(path.parent.name), style=STYLE, body=body), encoding="utf-8")
