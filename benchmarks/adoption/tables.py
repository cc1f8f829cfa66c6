"""What a run of the adoption bench says: in the terminal, and in RESULTS.md."""

import os
import platform
import re
from pathlib import Path
from typing import Any

PLACES = ("--environment", "--folder", "--results")  # options whose values are paths of this machine
SHORT = {"passed": "passed", "failed": "FAILED", "warning": "warning", "skipped": "skipped"}
TOGETHER = (
    "Put together from several commands, of each item what came last: an item may have been run before a repair that "
    "another one led to, and the seconds are of all of them."
)
FALSE, TRUE, REMARK = "false alarm", "true remark", "remark"


def findings(run: Any) -> list[tuple[str, dict[str, Any]]]:
    """Return all findings with their items; what gave no report is one, too."""
    found = []
    for name, item in run.items.items():
        if item["verdict"] == "no report":
            found.append((name, {"severity": "failed", "what": "no report", "why": item.get("output", "")[-300:]}))
        found += [(name, finding) for finding in item.get("findings", [])]
    return found


def judge(project: str, item: str, finding: dict[str, Any], judgements: list[dict[str, str]]) -> tuple[str, str]:
    """Return verdict and reason of the first judgement that fits; a finding that nobody has judged is a false alarm."""
    if finding["severity"] == REMARK:
        return REMARK, "leaves the verdict as it is"
    text = " ".join(str(finding.get(key)) for key in ("what", "where", "place", "why"))
    for known in judgements:
        wanted = {"project": project, "item": item, "rule": finding.get("rule")}
        fits = all(known.get(key, value) == value for key, value in wanted.items())
        if fits and re.search(known.get("pattern", ""), text):
            return known["verdict"], known["reason"]
    return FALSE, "not judged yet"


def alarms(project: Any, run: Any, judgements: list[dict[str, str]]) -> list[tuple[str, dict[str, Any], str]]:
    judged = [(item, finding, *judge(project.name, item, finding, judgements)) for item, finding in findings(run)]
    return [(item, finding, reason) for item, finding, verdict, reason in judged if verdict == FALSE]


def skips(run: Any) -> dict[str, str]:
    return {name: item.get("skipped") or "" for name, item in run.items.items() if item["verdict"] == "skipped"}


def show(run: Any) -> str:
    if run.losses is None:
        return "not trained" if run.sound is None else "NOT SOUND: no loss seen"
    return f"{'sound' if run.sound else 'NOT SOUND'}, loss {run.losses[0]:.4g} -> {run.losses[1]:.4g}"


def print_project(project: Any, run: Any, judgements: list[dict[str, str]]) -> None:
    print(
        f"\n== {project.name} ({project.package} {run.version}, {project.namespace}; {project.task}): {show(run)}, ",
        end="",
    )
    print(f"{run.seconds:.0f} s, exit code {run.code}", flush=True)
    if run.sound is False:
        print(run.output[-1500:])
    for name, item in run.items.items():
        said = item.get("skipped") or item.get("seen") or ""
        print(f"  {name:<16}{SHORT.get(item['verdict'], item['verdict']):<9}{item.get('seconds', 0):6.1f} s  {said}")
    for name, finding in findings(run):
        verdict, reason = judge(project.name, name, finding, judgements)
        print(f"  -- {name}, {finding.get('rule', finding.get('severity'))}: {verdict} ({reason})")
        for key in ("what", "where", "place", "why", "fix"):
            if finding.get(key):
                print(f"     {key:<6}{finding[key]}")


def table(chosen: list[Any], runs: dict[str, Any]) -> list[str]:
    items = list(dict.fromkeys(name for run in runs.values() for name in run.items))
    lines = ["| project | " + " | ".join(items) + " |", "| --- |" + " --- |" * len(items)]
    for project in chosen:
        verdicts = [runs[project.name].items.get(item, {}).get("verdict", "-") for item in items]
        lines.append(f"| {project.name} | " + " | ".join(SHORT.get(verdict, verdict) for verdict in verdicts) + " |")
    return lines


def print_table(chosen: list[Any], runs: dict[str, Any], judgements: list[dict[str, str]]) -> int:
    """Print project x item and return the number of false alarms."""
    count = sum(len(alarms(project, runs[project.name], judgements)) for project in chosen)
    skipped = sum(len(skips(run)) for run in runs.values())
    print("", *table(chosen, runs), "", f"{len(chosen)} projects, {count} false alarms, {skipped} skipped", sep="\n")
    return count


def write_results(
    path: Path,
    chosen: list[Any],
    runs: dict[str, Any],
    judgements: list[dict[str, str]],
    arguments: list[str],
    missing: list[str] | None = None,
) -> None:
    count = sum(len(alarms(project, runs[project.name], judgements)) for project in chosen)
    tasks = {project.task for project in chosen}
    quiet = sum(not alarms(project, runs[project.name], judgements) for project in chosen)
    lines = [
        "# The checklist on projects of others",
        "",
        f"`{' '.join(['python benchmarks/adoption/run.py', *without_places(arguments)])}` on {os.cpu_count()} cores, "
        f"{platform.system()}, Python {platform.python_version()}; one thread a process.",
        "",
        f"{len(chosen)} healthy projects of {len(tasks)} kinds of task: **{count} false alarms**, {quiet} projects "
        "without one. A finding that judgements.yaml does not call true is a false alarm.",
        *([] if missing is None else ["", TOGETHER]),
        *([] if not missing else ["", f"Not run: {', '.join(missing)}."]),
        "",
        "| project | package | Lightning | task | loss of plain training | run (UTC) | seconds | alarms | skipped |",
        "| --- | --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for project in chosen:
        run = runs[project.name]
        false = len(alarms(project, run, judgements))
        lines.append(
            f"| {project.name} | {project.package} {run.version} | {project.namespace} | {project.task} | {show(run)} "
            f"| {run.when} | {run.seconds:.0f} | {false} | {', '.join(skips(run)) or '-'} |"
        )
    lines += ["", "## Verdicts", "", "`-`: not run.", "", *table(chosen, runs), "", "## Findings", ""]
    lines += ["| project | item, rule | what | where | judged | reason |", "| --- | --- | --- | --- | --- | --- |"]
    for project in chosen:
        for item, finding in findings(runs[project.name]):
            verdict, reason = judge(project.name, item, finding, judgements)
            where = finding.get("where") or finding.get("place") or ""
            name = f"{item}, {finding['rule']}" if finding.get("rule") else item
            cells = [project.name, name, str(finding["what"]), str(where), verdict, reason]
            lines.append("| " + " | ".join(as_cell(cell) for cell in cells) + " |")
    lines += ["", "## Skipped", "", "| project | item | reason |", "| --- | --- | --- |"]
    for project in chosen:
        lines += [f"| {project.name} | {item} | {reason} |" for item, reason in skips(runs[project.name]).items()]
    lines += ["", "## What the projects are", ""]
    lines += [f"- **{project.name}**: {project.source}. Covers: {project.covers}." for project in chosen]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def without_places(arguments: list[str]) -> list[str]:
    values = {index + 1 for index, each in enumerate(arguments) if each in PLACES}
    return [each for index, each in enumerate(arguments) if each not in PLACES and index not in values]


def as_cell(text: str) -> str:
    """Return text for a table's cell, without the paths that only this machine has."""
    return re.sub(r"\S*/site-packages/", "", text).replace("\n", " ").replace("|", "\\|")
