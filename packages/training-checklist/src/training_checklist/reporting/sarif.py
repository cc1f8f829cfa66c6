"""The findings as SARIF 2.1.0, which code hosts show beside the line in a review."""

import json
import sys
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from training_checklist.engines.own_code import is_own
from training_checklist.finding import FAILED, REMARK, WARNING, Finding, Verdict
from training_checklist.probe import Probe
from training_checklist.reporting.lines import rows

LEVELS = {FAILED: "error", WARNING: "warning", REMARK: "note"}
SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"


def write_sarif(path: Path, verdicts: list[Verdict], rules: Mapping[str, Probe]) -> None:
    """Write the findings, each with a file of the project: a review shows nothing else."""
    told: dict[Finding, bool] = {finding: False for verdict in verdicts for finding in verdict.findings}
    told |= {finding: True for verdict in verdicts for finding, _ in verdict.silenced}
    results = [result(finding, silenced) for finding, silenced in told.items() if location(finding)]
    names = sorted({finding.rule for finding in told if location(finding)})
    driver = {
        "name": "training-checklist",
        "version": own_version(),
        "rules": [described(name, rules) for name in names],
    }
    content = {"$schema": SCHEMA, "version": "2.1.0", "runs": [{"tool": {"driver": driver}, "results": results}]}
    path.write_text(json.dumps(content, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def result(finding: Finding, silenced: bool) -> dict[str, Any]:
    text = "\n".join([finding.what, *(f"{label}: {said}" for label, said in rows(finding))])
    return {
        "ruleId": finding.rule,
        "level": LEVELS[finding.severity],
        "message": {"text": text},
        "locations": [{"physicalLocation": location(finding)}],
        **({"suppressions": [{"kind": "external"}]} if silenced else {}),
    }


def location(finding: Finding) -> dict[str, Any] | None:
    """Return the first file and line that lie in the project, of those that a finding has, and of the program."""
    here = Path.cwd()
    for file, line in (*finding.spots, (program(), 1)):
        path = here / file
        if path.is_file() and path.is_relative_to(here):
            uri = path.relative_to(here).as_posix()
            return {"artifactLocation": {"uri": uri}, "region": {"startLine": line}}
    return None


def program() -> str:
    """Return the file of the program that runs, "" where it lies elsewhere, as pytest does."""
    file = getattr(sys.modules.get("__main__"), "__file__", None) or ""
    return file if is_own(file) and not Path(file).is_relative_to(sys.prefix) else ""


def described(name: str, rules: Mapping[str, Probe]) -> dict[str, Any]:
    rule = rules.get(name)
    return (
        {"id": name}
        if rule is None
        else {"id": name, "shortDescription": {"text": rule.question}, "help": {"text": rule.why}}
    )


def own_version() -> str:
    try:
        return version("training-checklist")
    except PackageNotFoundError:  # a folder on the path, not an installation
        return "0"
