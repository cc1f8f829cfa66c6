"""Every rule keeps the contract, by its own examples; a new file in rules/ is tested without anyone remembering it."""

import pkgutil
import re
from collections import Counter
from importlib import import_module, resources

import pytest
from training_checklist import rules
from training_checklist.finding import FAILED, REMARK, WARNING
from training_checklist.rules import own_rules

RULES = own_rules()
ITEMS = {path.name.removesuffix(".yaml") for path in (resources.files("training_checklist") / "conf/debug").iterdir()}


def by_id(rule):
    return rule.id


@pytest.mark.parametrize("rule", RULES, ids=by_id)
def test_faulty_example_is_found_and_said_in_full(rule):
    found = list(rule.findings(rule.faulty(), {}))
    assert found
    for finding in found:
        assert (finding.rule, finding.severity in (FAILED, WARNING, REMARK)) == (rule.id, True)
        assert finding.what.strip()
        assert finding.why.strip()
        assert finding.fix.advice or finding.fix.overrides or finding.fix.items
        assert set(finding.fix.items) <= ITEMS
        # Commands are made in one place, for whatever program the project starts.
        assert "python " not in f"{finding.what} {finding.why} {finding.fix.advice}"


@pytest.mark.parametrize("rule", RULES, ids=by_id)
def test_healthy_example_is_silent(rule):
    assert list(rule.findings(rule.healthy(), {})) == []


@pytest.mark.parametrize("rule", RULES, ids=by_id)
def test_rule_reads_the_evidence_of_its_examples_and_belongs_to_an_item(rule):
    assert type(rule.faulty()) is type(rule.healthy()) is rule.evidence
    assert rule.item in ITEMS
    assert rule.question.endswith("?")
    assert re.match(r"[a-z0-9\"'`(]", rule.why)  # it goes on from what was seen


@pytest.mark.parametrize("rule", RULES, ids=by_id)
def test_every_threshold_has_a_reason(rule):
    for threshold in rule.thresholds.values():
        assert len(threshold.reason.split()) > 4


def test_ids_and_thresholds_are_unique():
    assert [count for count in Counter(rule.id for rule in RULES).values() if count > 1] == []
    names = Counter((rule.item, name) for rule in RULES for name in rule.thresholds)
    assert [name for name, count in names.items() if count > 1] == []


def test_file_of_a_rule_is_named_after_it():
    for module in pkgutil.walk_packages(rules.__path__, f"{rules.__name__}."):
        if not module.ispkg:
            topic, name = module.name.split(".")[-2:]
            assert import_module(module.name).RULE.id == f"{topic}/{name.replace('_', '-')}"
