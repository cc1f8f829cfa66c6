"""The verdicts of a run: as a table in the terminal, debug/report.json and debug/report.md.

report.json: {"schema": 1, "verdict": str, "crashed": bool, "overrides": [str], "items": [...]}, an item being
{"item", "verdict", "question", "seen", "skipped", "seconds", "facts", "findings": [...]}, a finding
{"severity", "what", "where", "why", "fix"}. A verdict is passed, warning, failed or skipped.
"""

import json
import os
import re
import socket
import sys
import time
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

from hydra.core.utils import JobReturn, JobStatus
from hydra.experimental.callback import Callback
from omegaconf import DictConfig
from rich.console import Console
from rich.table import Table
from rich.text import Text
from training_config.overrides import task_overrides
from training_config.secret_values import secret_values
from training_config.walk import walk

from training_checklist import session
from training_checklist.diagnosis.diagnose import diagnose, print_traceback
from training_checklist.distributed.presence import has_ended
from training_checklist.settings import unknown_settings
from training_checklist.verdict import (
    FAILED,
    PASSED,
    SKIPPED,
    WARNING,
    CheckFailed,
    Finding,
    FitEnded,
    Refused,
    Verdict,
    launched_rank,
    worst,
)

SCHEMA = 1
OWNER = "DEBUG_REPORT_OWNER"  # variable that tells processes started by a job that somebody else reports for it
COLOURS = {PASSED: "green", WARNING: "yellow", FAILED: "bold red", SKIPPED: "dim"}
RANK_SECONDS = 10  # how long rank 0 waits for the verdicts of the others


class Report(Callback):
    """Hydra's callback that turns the findings of a job's checks into a report and an exit code.

    Args:
        items: each item that is on, with what it asks.
    """

    def __init__(self, items: dict[str, str]) -> None:
        self.items = dict(items)

    def on_job_start(self, config: DictConfig, **kwargs: Any) -> None:
        refuse(unknown_settings(config))
        self.checks = session.begin()
        self.started = time.monotonic()
        self.owner = OWNER not in os.environ and not any(
            os.environ.get(name, "0") != "0" for name in ("RANK", "LOCAL_RANK", "SLURM_PROCID")
        )
        if self.owner:
            os.environ[OWNER] = f"{socket.gethostname()}:{os.getpid()}"

        self.given = ExitStack()
        callbacks = config.get("callbacks") or {}
        # Where no callback of the project's own is in the config, its training function may make them elsewhere.
        elsewhere = callbacks and all(key.startswith("debug_") for key in callbacks)
        from training_checklist.check import every_trainer

        self.given.enter_context(every_trainer(callbacks if elsewhere else {}))

    def on_job_end(self, config: DictConfig, job_return: JobReturn, **kwargs: Any) -> None:
        try:
            self._report(config, job_return)
        except Exception as error:  # Hydra would make a warning of it, and a success of the job
            job_return.status, job_return.return_value = JobStatus.FAILED, error
        finally:
            self.given.close()
            if self.owner:
                del os.environ[OWNER]

    def on_run_end(self, config: DictConfig, job_return: JobReturn, **kwargs: Any) -> None:
        """End with exit code 1 where a check has failed: Hydra would call it an error of the job, and repeat it."""
        error = job_return._return_value
        if self.owner and isinstance(error, CheckFailed | Refused):
            if isinstance(error, Refused):
                print(error, file=sys.stderr)
            raise SystemExit(1)

    def _report(self, config: DictConfig, job_return: JobReturn) -> None:
        error = job_return._return_value if job_return.status == JobStatus.FAILED else None
        if isinstance(error, FitEnded):
            error, job_return.status, job_return.return_value = None, JobStatus.COMPLETED, None
        refusal = find(error, Refused)
        if refusal is not None:
            job_return.return_value = refusal
            return
        folder = Path(config.hydra.runtime.output_dir)
        if error is None:
            for check in self.checks:
                check.conclude(folder)
        verdicts = [self._judge(item, error) for item in self.items]
        for verdict in verdicts:
            verdict.findings = [replace(finding, fix=with_keys_of(config, finding.fix)) for finding in verdict.findings]
        secrets = secret_values(config)
        verdicts = [verdict.without(secrets) for verdict in verdicts]
        (folder / "debug").mkdir(exist_ok=True)
        if not self.owner and not inherits(folder / "debug"):
            write_json(rank_file(folder, self.checks[0].rank if self.checks else launched_rank()), verdicts)
            return
        ranks = read_ranks(
            folder, max((check.world_size for check in self.checks), default=1) - 1 if error is None else 0
        )
        if ranks:
            built = {check.item for check in self.checks}
            verdicts = [merge(verdict, ranks, verdict.item in built) for verdict in verdicts]
        write_report(folder / "debug", verdicts, config, crashed=error is not None)
        if error is not None and not ranks and find(error, CheckFailed) is None:
            print_traceback(error)
        print_report(verdicts, folder / "debug")
        failed = [verdict for verdict in verdicts if verdict.status == FAILED]
        if failed or error is not None:
            job_return.status = JobStatus.FAILED
            job_return.return_value = CheckFailed(
                "; ".join(f"{verdict.item} failed: {verdict.findings[0].what.splitlines()[0]}" for verdict in failed)
            )

    def _judge(self, item: str, error: Exception | None) -> Verdict:
        question = self.items[item]
        check = session.find(item)
        verdict = Verdict(item, question) if check is None else check.verdict(question)
        verdict.seconds = round(time.monotonic() - self.started if check is None else verdict.seconds, 2)
        if error is not None:
            explained = None if check is None else check.explain(error)
            finding = explained or diagnose(error)
            verdict.findings = [*(known for known in verdict.findings if known != finding), finding]
        elif check is None:
            verdict.skipped = f"nothing has built callbacks.debug_{item}: the training function must use cfg.callbacks"
        return verdict


def refuse(problems: list[str]) -> None:
    """End the process where there are problems: Hydra only warns of what a callback raises."""
    if problems:
        sys.exit("\n".join(problems))


def find(error: BaseException | None, kind: type[BaseException]) -> BaseException | None:
    """Return the exception of some kind that `error` is or was caused by, or None."""
    while error is not None and not isinstance(error, kind):
        error = error.__cause__
    return error


def with_keys_of(config: DictConfig, fix: str) -> str:
    """Return a command whose overrides name keys of this config: optimizer.lr may be model.optimizer.lr in it."""

    def known(match: re.Match[str]) -> str:
        key = match["key"]
        if key in keys:
            return match[0]
        alike = [other for other in keys if other.endswith(f".{key}")]
        if len(alike) == 1:
            return f" {match['mark']}{alike[0]}="
        return f" +{key}=" if key.startswith("trainer.") else match[0]

    keys = [key for key, _, _ in walk(config)]
    return re.sub(r" (?P<mark>\+*)(?P<key>[a-z_]+(\.[a-z_]+)+)=", known, fix)


def inherits(folder: Path) -> bool:
    """Whether this process is the first to find that the one which was to report has been killed."""
    host, _, process = os.environ.get(OWNER, "").partition(":")
    if host != socket.gethostname() or not has_ended(int(process)):
        return False
    try:
        (folder / ".heir").touch(exist_ok=False)
    except FileExistsError:
        return False
    return True


def rank_file(folder: Path, rank: int) -> Path:
    return folder / "debug" / f".rank{rank}.json"


def write_json(path: Path, verdicts: list[Verdict]) -> None:
    draft = path.with_suffix(".draft")
    draft.write_text(json.dumps([verdict.as_dict() for verdict in verdicts]), encoding="utf-8")
    draft.replace(path)


def read_ranks(folder: Path, expected: int) -> dict[int, list[Verdict]]:
    """Return and remove the verdicts that other processes of this job have written, by their rank."""
    pattern = rank_file(folder, 0).name.replace("0", "*")
    deadline = time.monotonic() + RANK_SECONDS
    while len(list((folder / "debug").glob(pattern))) < expected and time.monotonic() < deadline:
        time.sleep(0.1)
    ranks = {}
    for path in sorted((folder / "debug").glob(pattern)):
        content = json.loads(path.read_text(encoding="utf-8"))
        ranks[int(path.stem.removeprefix(".rank"))] = [Verdict.from_dict(verdict) for verdict in content]
        path.unlink()
    return ranks


def merge(own: Verdict, ranks: dict[int, list[Verdict]], is_rank: bool) -> Verdict:
    """Return one verdict of what the ranks found; `is_rank` is whether this process was one of them."""
    others = {rank: next(v for v in verdicts if v.item == own.item) for rank, verdicts in ranks.items()}
    first = own if is_rank else others[min(others)]
    findings = list(first.findings) if is_rank else []
    for rank, verdict in others.items():
        for finding in verdict.findings:
            if finding in findings:
                continue
            where = finding.where if finding.where.startswith("rank") else f"rank {rank}: {finding.where}"
            if (finding.what, on_any_rank(where)) not in {(seen.what, on_any_rank(seen.where)) for seen in findings}:
                findings.append(Finding(finding.severity, finding.what, where, finding.why, finding.fix))
    # A crash that no rank lived to tell is known to the process that waited for them.
    first.findings = findings or own.findings
    return first


def on_any_rank(where: str) -> str:
    return where.partition(": ")[2] if where.startswith("rank") else where


def write_report(folder: Path, verdicts: list[Verdict], config: DictConfig, crashed: bool = False) -> None:
    """Write report.json and report.md into `folder`; `crashed` is whether the run ended by an exception."""
    content = {
        "schema": SCHEMA,
        "verdict": worst([verdict.status for verdict in verdicts]),
        "crashed": crashed,
        "overrides": task_overrides(),
        "items": [verdict.as_dict() for verdict in verdicts],
    }
    text = json.dumps(content, indent=2, ensure_ascii=False)
    (folder / "report.json").write_text(text + "\n", encoding="utf-8")
    (folder / "report.md").write_text(markdown(verdicts, content["overrides"]), encoding="utf-8")


def markdown(verdicts: list[Verdict], overrides: list[str]) -> str:
    lines = [f"# {' '.join(overrides)}", "", "| item | verdict | seconds | seen |", "| --- | --- | --- | --- |"]
    for verdict in verdicts:
        seen = summary(verdict).replace("|", "\\|")
        lines.append(f"| {verdict.item} | {verdict.status} | {verdict.seconds:.1f} | {seen} |")
    for verdict in verdicts:
        if not verdict.findings:
            continue
        lines += ["", f"## {verdict.item}: {verdict.question}"]
        for finding in verdict.findings:
            lines += ["", f"- **{finding.severity}**: {finding.what}"]
            lines += [f"  - {label}: {text}" for label, text in rows(finding)]
    return "\n".join(lines) + "\n"


def summary(verdict: Verdict) -> str:
    """Return one line that says what an item came to."""
    if verdict.findings:
        more = f" (and {len(verdict.findings) - 1} more)" if len(verdict.findings) > 1 else ""
        return verdict.findings[0].what.splitlines()[0] + more
    return verdict.skipped or verdict.seen


def rows(finding: Finding) -> list[tuple[str, str]]:
    return [("where", finding.where), ("why", finding.why), ("next", finding.fix)]


def print_report(verdicts: list[Verdict], folder: Path) -> None:
    """Print each finding with its place, its reason and the next step; last, a table with a row an item."""
    console = Console()
    console.print()
    told: list[Finding] = []
    for verdict in verdicts:
        for finding in verdict.findings:
            if finding in told:  # a crash is every item's finding
                continue
            told.append(finding)
            console.print(Text(f"{verdict.item} {finding.severity}: ", COLOURS[finding.severity]) + Text(finding.what))
            for label, text in rows(finding):
                console.print(Text(f"  {label:<6}", "cyan") + Text(text.replace("\n", "\n        ")), soft_wrap=True)
            console.print()
    table = Table("item", "verdict", "seconds", "seen", expand=False)
    table.columns[0].no_wrap = table.columns[1].no_wrap = True
    table.columns[3].overflow = "fold"  # a path is wider than a narrow terminal
    for verdict in verdicts:
        status = Text(verdict.status, COLOURS[verdict.status])
        table.add_row(verdict.item, status, f"{verdict.seconds:.1f}", Text(summary(verdict)))
    console.print(table)
    path = folder / "report.md"
    console.print(
        f"  report: {path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path}", soft_wrap=True
    )
