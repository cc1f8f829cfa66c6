"""The table of a run, for the terminal and for RESULTS.md."""

import os
import platform
import subprocess
from collections import Counter
from datetime import date
from importlib.metadata import version
from pathlib import Path

from judge import ANYHOW, MISSED, RIGHT, UNCLEAR, Outcome, Run, alarms

PACKAGES = ("torch", "pytorch-lightning", "hydra-core", "torchmetrics")
WIDTH = 150  # characters of a finding in the table


def as_table(outcomes: list[Outcome]) -> str:
    """Return the outcomes as a Markdown table, which a terminal shows well enough."""
    rows = [("fault", "item", "result", "by", "place", "s", "what was said, or why not")]
    for each in outcomes:
        name = each.fault.id if each.fault.silent else f"{each.fault.id} (loud)"
        place = "named" if each.place else ("" if not each.by else "no")
        also = [item for item in each.loud if item != each.by]
        by = f"{each.by} (also {', '.join(also)})" if also else each.by
        said = f"{each.said[:WIDTH]}{'…' if len(each.said) > WIDTH else ''}".replace("|", "\\|")
        rows.append((name, " / ".join(each.fault.items), each.status, by, place, f"{each.seconds:.0f}", said))
    widths = [max(len(row[column]) for row in rows) for column in range(6)]
    rows.insert(1, tuple("-" * width for width in [*widths, 3]))
    return "\n".join(
        f"| {' | '.join(cell.ljust(width) for cell, width in zip(row, [*widths, 0], strict=True))} |" for row in rows
    )


def totals(outcomes: list[Outcome], runs: dict[str, Run]) -> list[str]:
    counts, number = Counter(each.status for each in outcomes), len(outcomes)
    lines = []
    if outcomes:
        silent = [each for each in outcomes if each.fault.silent]
        right = sum(each.status == RIGHT for each in silent)
        lines = [
            f"caught by the right item with the right place: {counts[RIGHT]} of {number} "
            f"({counts[RIGHT] / number:.1%}); of {len(silent)} silent ones {right}",
            f"caught anyhow: {counts[ANYHOW]}",
            f"missed: {counts[MISSED]}",
            f"inconclusive: {counts[UNCLEAR]}",
        ]
    if runs:
        loud, verdicts = sum(len(alarms(run)) for run in runs.values()), sum(len(run.items) for run in runs.values())
        lines.append(f"false alarms: {loud} in {verdicts} verdicts on {len(runs)} healthy variants")
    return lines


def write_results(
    path: Path, outcomes: list[Outcome], runs: dict[str, Run], arguments: list[str], seconds: float
) -> None:
    command = " ".join(["python benchmarks/faults/run.py", *arguments])
    versions = ", ".join(f"{name} {version(name)}" for name in PACKAGES)
    machine = f"{os.cpu_count()} cores ({platform.system()} {platform.machine()}), Python {platform.python_version()}"
    lines = [
        "# Planted faults",
        "",
        f"Written by `{command}` on {date.today()}, in {seconds / 60:.0f} minutes on {machine}, {versions}, "
        f"commit {commit()}.",
        "",
        *(f"- {line}" for line in totals(outcomes, runs)),
        "",
    ]
    if outcomes:
        lines += ["## Faults", "", as_table(outcomes), ""]
    if runs:
        lines += ["## Healthy variants", "", "| variant | seconds | verdicts | false alarms | skipped |"]
        lines += ["| --- | --- | --- | --- | --- |"]
        for name, run in runs.items():
            said = "; ".join(f"{item}: {text}" for item, text in alarms(run).items()).replace("|", "\\|") or "none"
            skipped = ", ".join(item for item, verdict in run.items.items() if verdict["verdict"] == "skipped")
            lines.append(f"| {name} | {run.seconds:.0f} | {len(run.items)} | {said} | {skipped} |")
        lines.append("")
    path.write_text("\n".join(lines), encoding="utf-8")
    print(f"written to {path}")


def commit() -> str:
    answer = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], cwd=Path(__file__).parent, capture_output=True, text=True
    )
    return answer.stdout.strip() or "unknown"
