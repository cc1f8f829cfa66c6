"""What lies in a run's `debug/`: report.json and report.md, junit.xml for CI, report.sarif for reviews.

report.json is described by report.schema.json beside this file, which `python -m training_checklist schema` prints.
Within a major version of the package, keys are added to it and none is taken away or changed.
"""

import json
import linecache
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from training_config.overrides import task_overrides
from training_config.secret_values import redact_texts

from training_checklist.finding import FAILED, INTERRUPTED, PASSED, SKIPPED, Finding, Place, Verdict, worst
from training_checklist.probe import Probe
from training_checklist.reporting.conclusions import conclusions
from training_checklist.reporting.junit import write_junit
from training_checklist.reporting.lines import HELP, rows, summary
from training_checklist.reporting.sarif import write_sarif

SCHEMA = 2
AROUND = 3  # lines of code before and after the one that is meant
NAME = "report.json"
FILES = (NAME, "report.md", "junit.xml", "report.sarif")


def write_report(
    folder: Path,
    verdicts: list[Verdict],
    notes: list[str],
    rules: Mapping[str, Probe],
    crashed: bool = False,
    crashes: Sequence[Mapping[str, Any]] = (),
) -> None:
    """Write the report into `folder`.

    Args:
        rules: all of them, by id.
        crashed: whether the run ended by an exception.
        crashes: of an item's own process, for the one that has started it: exceptions of the run, by `Crashed`.
    """
    content = {
        "schema": SCHEMA,
        "verdict": overall(verdicts),
        "crashed": crashed,
        **({"crashes": list(crashes)} if crashes else {}),
        "overrides": task_overrides(),
        "notes": notes,
        "conclusions": [str(each) for each in conclusions(verdicts)],
        "items": [verdict.as_dict() for verdict in verdicts],
    }
    folder.mkdir(parents=True, exist_ok=True)
    text = json.dumps(content, indent=2, ensure_ascii=False, default=str)
    (folder / NAME).write_text(text + "\n", encoding="utf-8")
    (folder / "report.md").write_text(markdown(verdicts, content["overrides"], notes), encoding="utf-8")
    write_junit(folder / "junit.xml", verdicts)
    write_sarif(folder / "report.sarif", verdicts, rules)


def overall(verdicts: list[Verdict]) -> str | None:
    """Return the gravest status, or None of none; where the rest was not run, nothing has passed as a whole."""
    gravest = worst([verdict.status for verdict in verdicts])
    is_cut = any(verdict.skipped == INTERRUPTED for verdict in verdicts)
    return SKIPPED if is_cut and gravest == PASSED else gravest


def with_code(verdict: Verdict) -> Verdict:
    """Return a verdict whose findings hold the lines of code around their places."""
    findings = [replace(each, place=surrounded(each.place), near=surrounded(each.near)) for each in verdict.findings]
    return replace(verdict, findings=findings)


def surrounded(place: Place) -> Place:
    file, line = place.spot or ("", 0)
    around = range(max(line - AROUND, 1), line + AROUND + 1) if line else ()
    lines = {number: linecache.getline(file, number).rstrip() for number in around}
    while lines and not lines[max(lines)]:  # the file is shorter, or cannot be read from here
        lines.popitem()
    return replace(place, code=tuple(f"{number}: {line}" for number, line in lines.items()))


def masked(verdict: Verdict, secrets: set[str]) -> Verdict:
    """Return a verdict as plain data has it, with stars for secrets in its texts."""
    plain = json.loads(json.dumps(verdict.as_dict(), default=str))
    return Verdict.from_dict(redact_texts(plain, secrets))


def markdown(verdicts: list[Verdict], overrides: list[str], notes: list[str]) -> str:
    lines = [f"# {' '.join(overrides)}", "", "| item | verdict | seconds | seen |", "| --- | --- | --- | --- |"]
    for verdict in verdicts:
        seen = summary(verdict).replace("|", "\\|")
        lines.append(f"| {verdict.item} | {verdict.status} | {verdict.seconds:.1f} | {seen} |")
    found = conclusions(verdicts)
    title = "What is wrong:" if FAILED in {each.severity for each in found} else "What may be wrong:"
    lines += ["", title, "", *(f"{number}. {each}" for number, each in enumerate(found, 1))] if found else []
    lines += ["", *(f"- {note}" for note in notes)] if notes else []
    told: list[Finding] = []
    for verdict in verdicts:
        if not (verdict.findings or verdict.silenced or verdict.error):
            continue
        lines += ["", f"## {verdict.item}: {verdict.question}"]
        lines += ["", "```text", verdict.error, "```", "", HELP] if verdict.error is not None else []
        for finding in verdict.findings:
            lines += ["", f"- **{finding.severity}** `{finding.rule}`: {finding.what}"]
            again = finding in told  # a crash is every item's finding
            lines += ["  - as above"] if again else [f"  - {label}: {text}" for label, text in rows(finding)]
            told.append(finding)
        for finding, reason in verdict.silenced:
            lines += ["", f"- silenced `{finding.rule}` ({reason}): {finding.what}"]
    return "\n".join(lines) + "\n"
