"""The verdicts in the terminal: each finding with its place, its reason and the next step, and a table at the end."""

from pathlib import Path

from rich.console import Console
from rich.table import Table
from rich.text import Text

from training_checklist.finding import ERROR, FAILED, PASSED, REMARK, SKIPPED, WARNING, Finding, Verdict
from training_checklist.reporting.conclusions import conclusions
from training_checklist.reporting.lines import HELP, rows, summary

COLOURS = {PASSED: "green", REMARK: "cyan", WARNING: "magenta", FAILED: "bold red", SKIPPED: "dim", ERROR: "bold"}


def print_report(verdicts: list[Verdict], folder: Path, notes: list[str]) -> None:
    console = Console()
    console.print()
    print_conclusions(console, verdicts)
    told: list[Finding] = []
    for verdict in verdicts:
        for finding in verdict.findings:
            if finding not in told:  # a crash is every item's finding
                told.append(finding)
                print_finding(console, verdict.item, finding)
        if verdict.error is not None:
            print_error(console, verdict)
    console.print(table_of(verdicts))
    for note in notes:
        console.print(Text(f"  note: {note}"), soft_wrap=True)
    path = folder / "report.md"
    short = path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path
    console.print(f"  report: {short}", soft_wrap=True)


def print_conclusions(console: Console, verdicts: list[Verdict]) -> None:
    """Say first what is wrong, and what may be, where there are several findings."""
    found = conclusions(verdicts)
    if sum(1 + len(each.witnesses) for each in found) < 2:
        return
    wrong = sum(each.severity == FAILED for each in found)
    maybe = len(found) - wrong
    said = [f"{wrong} thing{'s are' if wrong > 1 else ' is'} wrong"] if wrong else []
    said += (
        [f"{maybe}{' more' * (wrong > 0)} may be"] if maybe and wrong else [f"{maybe} may be wrong"] if maybe else []
    )
    console.print(Text(f"{', and '.join(said)}:", COLOURS[FAILED if wrong else WARNING]))
    for number, each in enumerate(found, 1):
        console.print(Text(f"  {number}. {each}"), soft_wrap=True)
    console.print()


def print_finding(console: Console, item: str, finding: Finding) -> None:
    heading = Text(f"{item} {finding.severity}: ", COLOURS[finding.severity])
    console.print(heading + Text(finding.what) + Text(f"  [{finding.rule}]", "dim"))
    for label, text in rows(finding):
        console.print(Text(f"  {label:<6}", "bold") + Text(text.replace("\n", "\n        ")), soft_wrap=True)
    console.print()


def print_error(console: Console, verdict: Verdict) -> None:
    console.print(Text(f"{verdict.item} {ERROR}: ", COLOURS[ERROR]) + Text(verdict.error or ""), soft_wrap=True)
    console.print(Text(f"  {HELP}"), soft_wrap=True)
    console.print()


def table_of(verdicts: list[Verdict]) -> Table:
    table = Table("item", "verdict", "seconds", "seen", expand=False)
    table.columns[0].no_wrap = table.columns[1].no_wrap = True
    table.columns[3].overflow = "fold"  # a path is wider than a narrow terminal
    for verdict in verdicts:
        status = Text(verdict.status, COLOURS[verdict.status])
        table.add_row(verdict.item, status, f"{verdict.seconds:.1f}", Text(summary(verdict)))
    return table


def print_progress(verdict: Verdict) -> None:
    """Print one line about an item of a checklist that is over."""
    status = Text(f"{verdict.status:<8}", COLOURS[verdict.status])
    line = "" if verdict.status == SKIPPED else summary(verdict)
    Console().print(Text(f"  {verdict.item:<16}") + status + Text(f"{verdict.seconds:5.1f} s  {line}"), soft_wrap=True)
