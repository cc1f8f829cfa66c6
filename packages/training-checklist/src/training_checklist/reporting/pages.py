"""The documentation of the rules, made from the rules themselves."""

import re
from collections.abc import Iterable
from typing import Any

from training_checklist.finding import Finding
from training_checklist.probe import Probe
from training_checklist.probes import Heading
from training_checklist.reporting.lines import rows
from training_checklist.reporting.wording import with_commands
from training_checklist.settings import KEY

NEAR = 5  # rules of a kind: more nobody reads


def page(rule: Probe, others: Iterable[Probe | Heading] = (), level: int = 1) -> str:
    """Return the page of a rule in Markdown; what its faulty example says is made anew.

    Args:
        others: among which those of its kind are looked for, that its page names.
        level: of its heading; on a page that is a part of a document, level 2, their names are links.
    """
    heading = "#" * level
    lines = [
        f"{heading} {rule.id}",
        "",
        f"**{rule.question}** A hit is a {noun(rule.severity)} of `+debug={rule.item}`.",
    ]
    lines += ["", f"Why it matters: {rule.why}."]
    if rule.aliases:
        lines += ["", f"It asks, too, what was asked by {', '.join(rule.aliases)}."]
    if rule.thresholds:
        lines += ["", "| threshold | default | reason |", "| --- | --- | --- |"]
        for name, each in rule.thresholds.items():
            lines.append(f"| `{KEY}.{rule.item}.{name}` | {each.value} | {each.reason} |")
    lines += ["", "For example:", "", "```text", *example(rule), "```"]
    if rule.may_be_wrong:
        lines += ["", f"When it may be wrong: {rule.may_be_wrong}. Then silence it, with that as the reason."]
    lines += ["", f"To silence it: `{KEY}: {{silence: {{{rule.id}: your reason}}}}`"]
    near = [f"- {each.id if level == 1 else link(each)}: {each.question}" for each in of_its_kind(rule, others)]
    return "\n".join([*lines, *(["", "Of its kind:", "", *near] if near else [])])


def of_its_kind(rule: Probe, others: Iterable[Probe | Heading]) -> list[Probe | Heading]:
    """Return rules of its topic and item, those first that have most words with it in common."""

    def words(each: Probe | Heading) -> set[str]:
        return set(re.findall(r"[a-z]{4,}", f"{each.id} {each.question}".lower()))

    kind = rule.id.partition("/")[0], rule.item
    near = [each for each in others if (each.id.partition("/")[0], each.item) == kind and each.id != rule.id]
    return sorted(near, key=lambda each: -len(words(each) & words(rule)))[:NEAR]


def link(rule: Probe | Heading) -> str:
    return f"[{rule.id}](#{rule.id.replace('/', '')})"


def as_data(rule: Probe) -> dict[str, Any]:
    """Return the page of a rule for a program; `example` is a finding as report.json has it."""
    return {
        "id": rule.id,
        "item": rule.item,
        "question": rule.question,
        "why": rule.why,
        "may_be_wrong": rule.may_be_wrong,
        "severity": rule.severity,
        "aliases": list(rule.aliases),
        "thresholds": {
            f"{KEY}.{rule.item}.{name}": {"default": each.value, "reason": each.reason}
            for name, each in rule.thresholds.items()
        },
        "example": with_commands(rule.example(), rule.item, None).as_dict(),
        "silence": f"{KEY}: {{silence: {{{rule.id}: your reason}}}}",
    }


def noun(severity: str) -> str:
    return "failure" if severity == "failed" else severity


def example(rule: Probe) -> Iterable[str]:
    finding: Finding = with_commands(rule.example(), rule.item, None)
    yield f"{rule.item} {finding.severity}: {finding.what}"
    for label, text in rows(finding):
        yield f"  {label:<6}{text}"


def pages(rules: Iterable[Probe]) -> str:
    """Return one document of all rules, by topic."""
    rules = list(rules)
    lines = ["# Rules", "", f"{len(rules)} rules, each in a file of its own.", ""]
    lines += ["| rule | item | asks |", "| --- | --- | --- |"]
    lines += [f"| {link(rule)} | {rule.item} | {rule.question} |" for rule in rules]
    return "\n".join([*lines, "", *("\n" + page(rule, rules, level=2) for rule in rules)]) + "\n"
