"""The verdicts as JUnit XML, which every CI shows: a suite an item, a case a rule."""

from pathlib import Path
from xml.etree import ElementTree

from training_checklist.finding import FAILED, SKIPPED, Finding, Verdict
from training_checklist.reporting.lines import rows


def write_junit(path: Path, verdicts: list[Verdict]) -> None:
    root = ElementTree.Element("testsuites", name="training-checklist")
    for verdict in verdicts:
        root.append(suite(verdict))
    ElementTree.indent(root)
    ElementTree.ElementTree(root).write(path, encoding="utf-8", xml_declaration=True)


def suite(verdict: Verdict) -> ElementTree.Element:
    cases = [case(rule, findings) for rule, findings in by_rule(verdict).items()]
    cases += [skipped(rule, reason) for rule, reason in verdict.unjudged.items()]
    if verdict.error is not None:
        cases.append(broken(verdict))
    elif verdict.status == SKIPPED:
        cases.append(skipped("the item", verdict.skipped or ""))
    counts = {
        f"{kind}s" if kind != "skipped" else kind: str(sum(each.find(kind) is not None for each in cases))
        for kind in ("failure", "error", "skipped")
    }
    seconds = f"{verdict.seconds:.2f}"
    found = ElementTree.Element("testsuite", name=verdict.item, tests=str(len(cases)), time=seconds, **counts)
    for each in cases:
        each.set("classname", verdict.item)
        found.append(each)
    return found


def by_rule(verdict: Verdict) -> dict[str, list[Finding]]:
    """Return the findings of every rule that has judged; of the exception that ended a run, too."""
    found: dict[str, list[Finding]] = {rule: [] for rule in verdict.judged}
    for finding in verdict.findings:
        found.setdefault(finding.rule, []).append(finding)
    return found


def case(rule: str, findings: list[Finding]) -> ElementTree.Element:
    element = ElementTree.Element("testcase", name=rule)
    for finding in findings:
        text = "\n".join([finding.what, *(f"{label}: {said}" for label, said in rows(finding))])
        if finding.severity == FAILED:
            ElementTree.SubElement(element, "failure", message=finding.what.splitlines()[0]).text = text
        else:  # JUnit knows neither warnings nor remarks
            ElementTree.SubElement(element, "system-out").text = f"{finding.severity}: {text}"
    return element


def skipped(name: str, reason: str) -> ElementTree.Element:
    element = ElementTree.Element("testcase", name=name)
    ElementTree.SubElement(element, "skipped", message=reason)
    return element


def broken(verdict: Verdict) -> ElementTree.Element:
    element = ElementTree.Element("testcase", name="training-checklist itself")
    first, _, rest = (verdict.error or "").partition("\n")
    ElementTree.SubElement(element, "error", message=first).text = rest
    return element
