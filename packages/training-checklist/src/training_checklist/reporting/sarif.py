"""The findings as SARIF 2.1.0, which code hosts show beside the line in a review."""

import json
import os
import re
import sys
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

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
    """Return the file and line in the project: of the code, of the config that set the value, or of the program."""
    file, line = finding.place.file, finding.place.line
    if not file:
        origin = re.match(r"([^\s,]+):(\d+)", finding.place.origin)
        file, line = (origin[1], int(origin[2])) if origin else (program(), 1)
    if not file or Path(file).is_absolute():
        return None
    return {"artifactLocation": {"uri": Path(file).as_posix()}, **({"region": {"startLine": line}} if line else {})}


def program() -> str:
    """Return the file of the program that runs, "" where it lies elsewhere, as pytest does."""
    file = getattr(sys.modules.get("__main__"), "__file__", None)
    relative = os.path.relpath(file) if file is not None else ""
    return "" if relative.startswith(os.pardir) or "site-packages" in relative else relative


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
