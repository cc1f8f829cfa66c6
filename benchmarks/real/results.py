"""The table of a run, for the terminal and for RESULTS.md."""

import os
import platform
from collections import Counter
from collections.abc import Iterable
from datetime import date
from importlib.metadata import version
from pathlib import Path
from typing import Any

PACKAGES = ("torch", "pytorch-lightning", "hydra-core")
HEAD = """# Real mistakes of real people

Each of these mistakes stood in a public repository until the commit beside it mended it. Here it stands in a small
module of this benchmark's own, with made data; the mended twin is the same code with the mistake mended. *Named* is the
cause and the place, *noticed* any other failure or warning that the twin has not; remarks do not count. Nothing of the
repositories is copied, and a small module is kinder than a large project: there is less else to be said.
"""


def as_table(outcomes: Iterable[Any]) -> str:
    """Return the outcomes as a Markdown table."""
    rows = ["| mistake | mended by | what was wrong | result | by | s | alarms on the twin |"]
    rows.append("| --- | --- | --- | --- | --- | --- | --- |")
    for each in outcomes:
        cells = (each.case.name, each.case.source, each.case.wrong, each.status, each.by or "-", f"{each.seconds:.0f}")
        rows.append(f"| {' | '.join(cell.replace('|', '/') for cell in (*cells, str(len(each.alarms))))} |")
    return "\n".join(rows)


def totals(outcomes: list[Any]) -> list[str]:
    counts, alarms = Counter(each.status for each in outcomes), [each for each in outcomes if each.alarms]
    share = ", ".join(f"{status} {counts[status]}" for status in ("named", "noticed", "missed"))
    return [
        f"{len(outcomes)} mistakes: {share} ({counts['named'] / max(len(outcomes), 1):.0%} named)",
        f"alarms: {sum(len(each.alarms) for each in alarms)}, on {len(alarms)} of {len(outcomes)} mended twins",
    ]


def write_results(path: Path, outcomes: list[Any]) -> None:
    versions = ", ".join(f"{name} {version(name)}" for name in PACKAGES)
    machine = f"{os.cpu_count()} cores ({platform.system()} {platform.machine()}), Python {platform.python_version()}"
    lines = [
        HEAD,
        f"Written by `python benchmarks/real/run.py` on {date.today()}, on {machine}, {versions}; seconds of",
    ]
    lines += ["both twins on one thread.", "", *(f"- {line}" for line in totals(outcomes)), "", as_table(outcomes)]
    unnamed = [each for each in outcomes if each.status != "named"]
    lines += ["", "## What is not named, and what it would need", ""]
    lines += [
        f"- **{each.case.name}** ({each.status}): {each.case.needs or 'not looked into yet'}." for each in unnamed
    ]
    lines += [
        "",
        "## What was said",
        "",
        "The finding that names the mistake, or the first of those that notice it.",
        "",
    ]
    lines += [f"- **{each.case.name}**: {each.said}" for each in outcomes if each.said]
    lines += ["", "## Alarms on the mended twins", ""]
    alarms = [f"- **{each.case.name}**: {alarm}" for each in outcomes for alarm in each.alarms]
    lines += alarms or ["None."]
    true = [(each.case.name, *pair) for each in outcomes for pair in each.case.twin.items()]
    lines += ["", "Of these twins a rule may say something that is true, and it counts for nothing here:", ""] * bool(
        true
    )
    lines += [f"- **{name}**: `{rule}`: {reason}." for name, rule, reason in true]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    print(f"written to {path}")
