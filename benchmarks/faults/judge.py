"""What the report of a run says about the fault that was planted in it."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from suite import Variant

RIGHT, ANYHOW, MISSED, UNCLEAR = "caught", "caught anyhow", "missed", "inconclusive"
ALARMS = ("failed", "warning")


@dataclass
class Run:
    """One command that was run, and what it left behind.

    Args:
        items: verdict of each item, as in report.json.
        output: what the command printed.
        code: its exit code, or None where it was stopped.
        seconds: that it took.
    """

    items: dict[str, dict[str, Any]]
    output: str
    code: int | None
    seconds: float


@dataclass
class Outcome:
    """What became of one fault.

    Args:
        status: RIGHT, ANYHOW, MISSED or UNCLEAR.
        by: the item that found it, or "".
        place: whether a finding of that item names the place.
        said: the finding, or why there is none.
        loud: every item that has found something.
    """

    fault: Variant
    status: str
    by: str = ""
    place: bool = False
    said: str = ""
    seconds: float = 0.0
    loud: Sequence[str] = field(default_factory=list)


def judge(fault: Variant, run: Run, quiet: set[str]) -> Outcome:
    """Judge a run of a fault; `quiet` are the items that say nothing about the untouched project."""
    heard = {item: verdict for item, verdict in run.items.items() if verdict["verdict"] in ALARMS and item in quiet}
    loud = sorted(heard)
    for item in (item for item in fault.items if item in heard):
        found = next((each for each in heard[item]["findings"] if names(each, fault.place)), None)
        if found is not None:
            return Outcome(fault, RIGHT, item, True, text(found), run.seconds, loud)
    for item in sorted(heard, key=lambda item: item not in fault.items):
        return Outcome(fault, ANYHOW, item, False, text(heard[item]["findings"][0]), run.seconds, loud)
    judged = [run.items[item] for item in fault.items if item in run.items]
    if any(verdict["verdict"] in ALARMS for verdict in judged):
        return Outcome(fault, MISSED, said="the untouched project is not silent either", seconds=run.seconds)
    if not judged and run.code not in (0, None):  # the config cannot be composed, so that no item was begun
        first = next((line.strip() for line in run.output.splitlines() if line.strip()), "")
        placed = all(re.search(expression, run.output) for expression in fault.place)
        return Outcome(fault, ANYHOW, "the command itself", placed, first, run.seconds)
    if run.code is None:
        return Outcome(fault, MISSED, said="the run did not end", seconds=run.seconds)
    skipped = next((verdict["skipped"] for verdict in judged if verdict["skipped"]), None)
    if skipped:
        return Outcome(fault, UNCLEAR, said=skipped, seconds=run.seconds)
    return Outcome(fault, MISSED, said=next((f"passed: {each['seen']}" for each in judged), ""), seconds=run.seconds)


def alarms(run: Run) -> dict[str, str]:
    """Return what each item has to say about a healthy project."""
    return {item: text(v["findings"][0]) for item, v in run.items.items() if v["verdict"] in ALARMS}


def names(finding: dict[str, str], place: Sequence[str]) -> bool:
    said = f"{finding['what']}\n{finding['where']}"
    return all(re.search(expression, said) for expression in place)


def text(finding: dict[str, str]) -> str:
    return f"{finding['what'].splitlines()[0]} — {finding['where'].splitlines()[0]}"
