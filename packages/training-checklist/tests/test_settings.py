"""A project tunes the items in one file, and is told of what it tunes in vain."""

import json
import re
from pathlib import Path

import pytest
import training_checklist
import yaml
from training_checklist.catalogue import Catalogue
from training_checklist.settings import check_settings
from training_checklist.starting.shape import agreed

ITEMS = sorted((Path(training_checklist.__file__).parent / "conf" / "debug").glob("*.yaml"))


def verdicts(folder: Path) -> list[dict]:
    [path] = folder.glob("outputs/train/*/*/debug/report.json")
    return json.loads(path.read_text(encoding="utf-8"))["items"]


@pytest.mark.parametrize("path", ITEMS, ids=lambda path: path.stem)
def test_every_argument_of_an_item_is_a_setting_with_a_default(path):
    arguments = yaml.safe_load(path.read_text(encoding="utf-8")).get("callbacks", {}).get(f"debug_{path.stem}", {})
    arguments |= arguments.pop("limits", {})
    for name, value in arguments.items():
        if name != "_target_":
            assert re.fullmatch(rf"\$\{{oc\.select:checks\.{path.stem}\.{name},.+\}}", str(value))


def test_setting_decides_and_the_argument_itself_on_the_command_line_decides_over_it(train, tmp_path):
    with pytest.raises(SystemExit):
        train(
            "+debug=overfit", "++checks.overfit={max_steps: 2, max_loss: 1e-9}", "callbacks.debug_overfit.max_steps=3"
        )
    [item] = verdicts(tmp_path)
    assert item["verdict"] == "failed"
    assert "after 3 steps" in item["findings"][0]["what"]


@pytest.mark.slow
def test_item_that_is_left_out_is_shown_with_the_reason(train):
    only = "hydra.callbacks.debug.only=[config,distributed]"
    run = train("+debug=checklist", only, "++checks.checklist.leave_out={distributed: one device only}")
    items = json.loads((run / "debug" / "report.json").read_text(encoding="utf-8"))["items"]
    assert [(item["item"], item["verdict"]) for item in items] == [("config", "passed"), ("distributed", "skipped")]
    assert items[1]["skipped"] == "left out by checks.checklist.leave_out: one device only"


@pytest.mark.parametrize("items", ["overfit", "checklist"])
def test_setting_that_no_item_reads_is_refused_with_the_nearest(train, items):
    with pytest.raises(SystemExit) as refused:
        train(f"+debug={items}", "++checks.overfit.max_los=1")
    assert refused.value.code.startswith("checks.overfit.max_los is read by no debug item; did you mean")
    assert "checks.overfit.max_loss" in refused.value.code


def test_without_an_item_settings_change_nothing(train):
    assert (train("++checks.overfit.max_los=1") / "run.json").is_file()


MERGED = """
from dataclasses import replace

from training_checklist import probes

PROBE = replace(probes.load("network/one-output"), id="own/merged", aliases=("own/gone",))
"""


def test_what_was_silenced_by_a_rule_that_was_merged_stays_silenced_by_the_one_that_asks_now(tmp_path, monkeypatch):
    (tmp_path / "merged_rule.py").write_text(MERGED, encoding="utf-8")
    (tmp_path / "known.json").write_text('{"findings": [["own/gone", "key"]]}', encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    content = {"silence": {"own/gone": "meant"}, "baseline": str(tmp_path / "known.json"), "rules": ["merged_rule"]}
    settings, problems = check_settings(content, [])
    assert (problems, settings.silence) == ([], {"own/merged": "meant"})
    assert settings.baseline == {("own/merged", "key")}


def test_an_alias_is_no_id_and_stands_once():
    names = [alias for rule in Catalogue().values() for alias in rule.aliases]
    assert sorted({*names} - {*Catalogue()}) == sorted(names)


@pytest.mark.parametrize(("own", "agreed_on"), [(1, 1), (0, 0), (2, 2), (100, 50), (1.0, 50), (0.5, 50), (None, 50)])
@pytest.mark.parametrize("name", ["limit_val_batches", "limit_test_batches"])
def test_item_looks_at_no_more_batches_held_out_than_the_project(name, own, agreed_on):
    assert agreed({name: 50}, {name: own})[name] == agreed_on
