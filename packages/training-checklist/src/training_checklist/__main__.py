"""python -m training_checklist rules [TOPIC]        every rule, with its item and its question
python -m training_checklist explain RULE          the page of a rule, or of the probe in a module
python -m training_checklist pages                 the pages of all rules, as one document
python -m training_checklist explain RULE --json   the same, as data
python -m training_checklist schema                the JSON Schema of report.json
python -m training_checklist baseline REPORT.json  its findings, as a file for checks.baseline
"""

import argparse
import json
import sys
from importlib.resources import files
from pathlib import Path

from training_config.near_names import suggestion

from training_checklist import probes
from training_checklist.catalogue import Catalogue
from training_checklist.finding import Finding
from training_checklist.reporting.pages import as_data, page, pages


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m training_checklist", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(dest="command", required=True)
    listing = commands.add_parser("rules", help="every rule, with its item and its question")
    listing.add_argument("topic", nargs="?", default="", help="only those whose id begins like this")
    explaining = commands.add_parser("explain", help="the page of a rule")
    explaining.add_argument("rule")
    explaining.add_argument("--json", action="store_true", help="as data")
    commands.add_parser("schema", help="the JSON Schema of report.json")
    commands.add_parser("pages", help="the pages of all rules, as one document")
    commands.add_parser("baseline", help="a report's findings, for checks.baseline").add_argument("report", type=Path)
    asked = parser.parse_args(arguments)
    if asked.command == "baseline":
        return write_baseline(asked.report)
    if asked.command == "schema":
        print(files("training_checklist.reporting").joinpath("report.schema.json").read_text(encoding="utf-8"), end="")
        return 0
    own = [asked.rule] if asked.command == "explain" and "/" not in asked.rule and "." in asked.rule else []
    rules = Catalogue(own)
    if asked.command == "rules":
        for rule in (probes.heading(name) for name in rules if name.startswith(asked.topic)):
            print(f"{rule.id:<44}{rule.item:<16}{rule.question}")
        return 0
    if asked.command == "pages":
        print(pages(rules.values()), end="")
        return 0
    name = next(iter(rules.projects), rules.id_of(asked.rule))
    if name not in rules:
        print(f"there is no rule {name}{suggestion(name, rules)}", file=sys.stderr)
        return 1
    topic = (probes.heading(each) for each in probes.names() if each.partition("/")[0] == name.partition("/")[0])
    print(json.dumps(as_data(rules[name]), indent=2, ensure_ascii=False) if asked.json else page(rules[name], topic))
    return 0


def write_baseline(path: Path) -> int:
    """Print what a report has found, by what stays when lines move: rule, module, parameter, file, function, key."""
    try:
        report = json.loads(path.read_text(encoding="utf-8"))
        found = [Finding.from_dict(each) for item in report["items"] for each in item["findings"]]
    except (OSError, ValueError, KeyError, TypeError) as error:
        print(f"{path} is no report of the checklist ({type(error).__name__}: {error})", file=sys.stderr)
        return 1
    known = sorted({finding.identity() for finding in found})
    print(json.dumps({"findings": known}, indent=1, ensure_ascii=False))
    return 0


if __name__ == "__main__":
    sys.exit(main())
