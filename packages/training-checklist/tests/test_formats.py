"""What CI and code hosts read, and the command line about rules."""

import json
from xml.etree import ElementTree

import pytest
from jsonschema import Draft202012Validator
from training_checklist import __main__ as command_line
from training_checklist.catalogue import Catalogue
from training_checklist.finding import FAILED, PASSED, REMARK, WARNING, Finding, Fix, Place, Verdict
from training_checklist.reporting.files import with_code, write_report
from training_checklist.reporting.junit import write_junit
from training_checklist.reporting.lines import summary
from training_checklist.reporting.pages import of_its_kind, page
from training_checklist.reporting.sarif import write_sarif

RULE, OTHER = "run/no-loss", "run/metric-not-finite"
COUNTED = ("tests", "failures", "errors", "skipped")


def finding(severity=FAILED, rule=RULE, **place):
    return Finding(rule, severity, "training_step returned None", Place(**place), "no weight changes", Fix("return it"))


@pytest.fixture
def verdicts():
    found = finding(file="src/net.py", line=7, function="Net.training_step")
    return [
        Verdict(
            "fast_dev_run",
            "?",
            [found, finding(WARNING, "run/metric-not-finite")],
            judged=[RULE, "run/loss-exactly-zero"],
        ),
        Verdict("device", "?", skipped="no step has run"),
        Verdict("trace", "?", error="trace: ValueError: x\n  File a"),
        Verdict("config", "?", silenced=[(finding(key="a.b", origin="conf/train.yaml:3"), "known")]),
    ]


def test_junit_has_a_suite_an_item_and_a_case_a_rule(verdicts, tmp_path):
    write_junit(tmp_path / "junit.xml", verdicts)
    suites = {suite.get("name"): suite for suite in ElementTree.parse(tmp_path / "junit.xml").getroot()}
    counts = {
        name: [suite.get(key) for key in ("tests", "failures", "errors", "skipped")] for name, suite in suites.items()
    }
    assert counts == {
        "fast_dev_run": ["3", "1", "0", "0"],
        "device": ["1", "0", "0", "1"],
        "trace": ["1", "0", "1", "0"],
        "config": ["0", "0", "0", "0"],
    }
    assert [case.get("name") for case in suites["fast_dev_run"]] == [
        RULE,
        "run/loss-exactly-zero",
        "run/metric-not-finite",
    ]
    assert "src/net.py:7" in suites["fast_dev_run"].find("testcase/failure").text


def test_sarif_names_the_real_file_and_line_and_what_is_silenced(verdicts, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("src/net.py", "conf/train.yaml"):
        (tmp_path / name).parent.mkdir()
        (tmp_path / name).touch()
    write_sarif(tmp_path / "report.sarif", verdicts, Catalogue())
    [run] = json.loads((tmp_path / "report.sarif").read_text())["runs"]
    code, config = run["results"]  # a warning without any line is none of a review's
    assert code["locations"] == [
        {"physicalLocation": {"artifactLocation": {"uri": "src/net.py"}, "region": {"startLine": 7}}}
    ]
    assert (code["ruleId"], code["level"]) == (RULE, "error")
    assert config["locations"][0]["physicalLocation"]["region"] == {"startLine": 3}
    assert config["suppressions"] == [{"kind": "external"}]
    assert run["tool"]["driver"]["rules"][0]["shortDescription"]["text"] == "Does training_step return a loss?"


def test_remark_stands_in_every_report_and_leaves_the_verdict_as_it_is(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "src").mkdir()
    (tmp_path / "src/net.py").touch()
    verdict = Verdict("fast_dev_run", "?", [finding(REMARK, file="src/net.py", line=7)], "one step", judged=[RULE])
    assert (verdict.status, summary(verdict)) == (PASSED, "one step (1 remark)")
    write_report(tmp_path, [verdict], [], Catalogue())
    report = json.loads((tmp_path / "report.json").read_text())
    assert (report["verdict"], report["items"][0]["findings"][0]["severity"]) == (PASSED, REMARK)
    assert f"**remark** `{RULE}`" in (tmp_path / "report.md").read_text()
    assert 'failures="0"' in (tmp_path / "junit.xml").read_text()
    [run] = json.loads((tmp_path / "report.sarif").read_text())["runs"]
    assert [result["level"] for result in run["results"]] == ["note"]


def test_rules_are_listed_and_explained(capsys):
    assert command_line.main(["rules", "run/"]) == 0
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()] == [
        "run/argument-without-effect",
        "run/hook-never-called",
        "run/key-never-read",
        "run/loss-exactly-zero",
        "run/loss-not-finite",
        "run/metric-not-finite",
        "run/no-loss",
        "run/weights-not-loaded",
    ]
    assert command_line.main(["explain", RULE]) == 0
    shown = capsys.readouterr().out
    assert "Does training_step return a loss?" in shown
    assert "fast_dev_run failed: training_step returned None" in shown
    assert "\n- run/loss-not-finite: Is the loss of the first training batch a finite number?" in shown
    assert command_line.main(["explain", RULE, "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["id"], told["question"], told["severity"]) == (RULE, "Does training_step return a loss?", FAILED)
    assert told["example"]["what"] in shown


def test_page_says_which_healthy_training_looks_alike_and_what_to_do_then(capsys):
    name = "learning/training-mode-in-validation"
    assert command_line.main(["explain", name]) == 0
    shown = capsys.readouterr().out
    assert "When it may be wrong: Monte Carlo dropout" in shown
    assert f"`checks: {{silence: {{{name}: your reason}}}}`" in shown
    assert command_line.main(["explain", name, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["may_be_wrong"].startswith("Monte Carlo dropout")


def test_page_names_first_the_rules_of_its_kind_that_ask_most_alike_and_a_document_links_to_them():
    rules = [Catalogue()[name] for name in ("data/shared-parts", "data/no-batch", "data/shared-samples", RULE)]
    assert [rule.id for rule in of_its_kind(rules[0], rules)] == ["data/shared-samples", "data/no-batch"]
    assert "- [data/no-batch](#datano-batch): " in page(rules[0], rules, level=2)


def test_crash_that_every_item_has_met_is_told_once_in_full(tmp_path):
    verdicts = [Verdict(item, "?", [finding(file="src/net.py", line=7)]) for item in ("trace", "overfit", "memory")]
    write_report(tmp_path, verdicts, [], Catalogue())
    text = (tmp_path / "report.md").read_text()
    assert (text.count("why: no weight changes"), text.count("as above")) == (1, 2)


def test_schema_of_the_report_is_printed_and_is_one(capsys):
    assert command_line.main(["schema"]) == 0
    Draft202012Validator.check_schema(json.loads(capsys.readouterr().out))


def test_report_holds_the_lines_of_code_around_a_place(tmp_path):
    code = tmp_path / "net.py"
    code.write_text("".join(f"line {number}\n" for number in range(1, 10)))
    [told] = with_code(Verdict("fast_dev_run", "?", [finding(FAILED, file=str(code), line=2)])).findings
    assert told.place.code == tuple(f"{number}: line {number}" for number in range(1, 6))
    [again] = Verdict.from_dict(json.loads(json.dumps(Verdict("fast_dev_run", "?", [told]).as_dict()))).findings
    assert again.place == told.place


def test_rule_that_does_not_exist_is_answered_with_the_nearest(capsys):
    assert command_line.main(["explain", "run/no-los"]) == 1
    assert "did you mean run/no-loss" in capsys.readouterr().err


def test_baseline_of_a_report_lets_what_is_known_pass_and_new_findings_fail(net, data, tmp_path, capsys):
    from training_checklist import check

    class Old(net):
        def loss(self, batch):
            return super().loss(batch) * 0

    class New(Old):
        def validation_step(self, batch, batch_idx):
            self.log("val/f1", float("nan"))

    check(Old(), data(), items=["fast_dev_run"], folder=tmp_path)
    capsys.readouterr()
    assert command_line.main(["baseline", str(tmp_path / "report.json")]) == 0
    (tmp_path / "known.json").write_text(capsys.readouterr().out)
    known = {"baseline": str(tmp_path / "known.json")}
    assert check(Old(), data(), items=["fast_dev_run"], checks=known).passed
    results = check(New(), data(), items=["fast_dev_run"], checks=known)
    assert [each.rule for each in results["fast_dev_run"].findings] == ["run/metric-not-finite"]
    assert check(net(), data(), items=["fast_dev_run"], checks=known).notes == (
        "checks.baseline: 1 known findings are gone; write it anew",
    )


def test_what_is_no_report_is_refused_in_one_line(tmp_path, capsys):
    (tmp_path / "x.json").write_text("[]")
    assert command_line.main(["baseline", str(tmp_path / "x.json")]) == 1
    assert capsys.readouterr().err.count("\n") == 1
