"""The bench of other people's modules: what counts as healthy, and what as a false alarm. None of them is run here."""

import importlib.util
import json
import os
import sys
from dataclasses import asdict
from pathlib import Path
from types import SimpleNamespace

import pytest
import yaml

ADOPTION = Path(__file__).parents[1] / "benchmarks" / "adoption"
PROJECTS = sorted(path.parent for path in ADOPTION.glob("projects/*/train.py"))
FINDING = {"severity": "failed", "what": "one batch could not be memorised", "where": "net"}


def load(name: str):
    """Import a file of the bench, which has no package, and names that other benchmarks have too."""
    spec = importlib.util.spec_from_file_location(f"adoption_{name}", ADOPTION / f"{name}.py")
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def bench(monkeypatch):
    monkeypatch.syspath_prepend(ADOPTION)
    return load("run")


tables = load("tables")


def alarms(judgements: list[dict]) -> list:
    run = SimpleNamespace(items={"overfit": {"verdict": "failed", "findings": [FINDING]}})
    return tables.alarms(SimpleNamespace(name="gan"), run, judgements)


def test_finding_that_nobody_judged_is_a_false_alarm():
    assert [item for item, _, _ in alarms([])] == ["overfit"]


def test_true_remark_is_no_alarm_where_its_judgement_fits():
    true = {"verdict": tables.TRUE, "reason": "so it is", "pattern": "memorised"}
    assert not alarms([true])
    assert alarms([{**true, "project": "vae"}])
    assert alarms([{**true, "pattern": "diverged"}])


def test_remark_is_no_alarm():
    finding = {**FINDING, "severity": "remark"}
    run = SimpleNamespace(items={"overfit": {"verdict": "passed", "findings": [finding]}})
    assert not tables.alarms(SimpleNamespace(name="gan"), run, [])


def test_item_without_a_report_is_a_false_alarm():
    run = SimpleNamespace(items={"checklist": {"verdict": "no report", "findings": []}})
    assert tables.alarms(SimpleNamespace(name="gan"), run, [])


def test_results_of_several_commands_are_put_together_with_the_last_of_each_item(bench, tmp_path):
    items = {"a": {"verdict": "failed"}, "b": {"verdict": "passed"}}
    for number, (name, part) in enumerate([("gan", items), ("gan-a", {"a": {"verdict": "passed"}}), ("gpt", items)]):
        path = tmp_path / f"{name}.json"
        path.write_text(json.dumps(asdict(bench.Run(part, 0, 10.0))))
        os.utime(path, (number, number))
    (tmp_path / "gan-losses.json").write_text("[1.0]")
    found = bench.put_together(tmp_path, "gan")
    assert {name: item["verdict"] for name, item in found.items.items()} == {"a": "passed", "b": "passed"}
    assert (found.seconds, found.when) == (20.0, "1970-01-01 00:00")
    assert bench.put_together(tmp_path, "vae") is None


def test_loss_that_falls_is_told_from_one_that_only_varies(bench):
    assert bench.fall([4.0, 3.9, 4.1, 3.0, 2.0, 1.1, 1.0, 0.9, 1.0, 0.8, 0.9, 1.0])[1]
    assert not bench.fall([1.0, 3.0, 2.0, 1.0, 3.0, 2.0, 1.0, 3.0, 2.0, 1.0, 3.0, 2.0])[1]
    assert not bench.fall([])[1]


@pytest.mark.parametrize("folder", PROJECTS, ids=lambda folder: folder.name)
def test_project_says_what_it_is(bench, folder):
    project = bench.Project(folder.name, **yaml.safe_load((folder / "project.yaml").read_text(encoding="utf-8")))
    assert all((project.package, project.source, project.task, project.covers))
    config = yaml.safe_load((folder / "configs" / "train.yaml").read_text(encoding="utf-8"))
    assert {"debug": None} in config["defaults"]


def test_there_are_projects_of_five_kinds_of_task_and_of_both_namespaces(bench):
    texts = [yaml.safe_load((folder / "project.yaml").read_text(encoding="utf-8")) for folder in PROJECTS]
    projects = [bench.Project(folder.name, **text) for folder, text in zip(PROJECTS, texts, strict=True)]
    assert len(projects) >= 14
    assert len({project.task for project in projects}) >= 5
    assert {project.namespace for project in projects} == {"lightning", "pytorch_lightning"}
