import json
import os
import re
import signal

import pytest
from omegaconf import OmegaConf
from training_checklist.experiments.anomaly import Anomaly
from training_checklist.starting.placement import keys_of_directory

SMALL = ["hydra.callbacks.debug.only=[fast_dev_run,anomaly]"]


def read(run):
    return json.loads((run / "debug" / "report.json").read_text(encoding="utf-8"))


def test_every_item_has_a_row_and_a_directory(train, capsys):
    run = train("+debug=checklist", *SMALL)
    report = read(run)
    assert [(item["item"], item["verdict"]) for item in report["items"]] == [
        ("fast_dev_run", "passed"),
        ("anomaly", "passed"),
    ]
    for item in ("fast_dev_run", "anomaly"):
        assert (run / "debug" / item / "output.log").read_text(encoding="utf-8")
    assert [path.name for path in run.iterdir()] == ["debug"]
    assert not list(run.rglob("*.ckpt"))
    table = capsys.readouterr().out
    assert re.search(r"fast_dev_run +│ passed", table)


def test_items_that_mean_nothing_after_a_crash_are_skipped_with_the_reason(train, tmp_path):
    with pytest.raises(SystemExit) as stopped:
        train("+debug=checklist", *SMALL, "model.net.num_classes=3")
    assert stopped.value.code == 1
    [path] = tmp_path.glob("outputs/train/*/*/debug/report.json")
    first, second = json.loads(path.read_text(encoding="utf-8"))["items"]
    assert (first["item"], first["verdict"]) == ("fast_dev_run", "failed")
    assert (second["item"], second["verdict"]) == ("anomaly", "skipped")
    assert "training fails before its first step is over, see fast_dev_run" in second["skipped"]


def test_item_that_dies_costs_its_own_verdict_alone(train, tmp_path, monkeypatch):
    monkeypatch.setattr(Anomaly, "on_train_start", lambda *_: os.kill(os.getpid(), signal.SIGKILL))
    with pytest.raises(SystemExit) as stopped:
        train("+debug=checklist", "hydra.callbacks.debug.only=[anomaly,fast_dev_run,overflow]")
    assert stopped.value.code == 2
    [path] = tmp_path.glob("outputs/train/*/*/debug/report.json")
    items = json.loads(path.read_text(encoding="utf-8"))["items"]
    assert [item["verdict"] for item in items] == ["passed", "tool error", "passed"]
    assert "its process ended with signal 9" in items[1]["error"]


def test_item_is_ended_at_its_time_limit(train, tmp_path, monkeypatch):
    monkeypatch.setattr(Anomaly, "on_train_start", lambda *_: signal.pause())
    with pytest.raises(SystemExit):
        train("+debug=checklist", "hydra.callbacks.debug.only=[anomaly]", "++checks.checklist.seconds=5")
    [path] = tmp_path.glob("outputs/train/*/*/debug/report.json")
    [item] = json.loads(path.read_text(encoding="utf-8"))["items"]
    assert "its process did not end within 5 s" in item["error"]
    assert not list(path.parent.glob(".*"))


@pytest.mark.parametrize(
    ("directory", "keys"),
    [
        ("${run_dir}", ["hydra.run.dir", "run_dir"]),
        ("${paths.run}", ["hydra.run.dir", "paths.run"]),
        ("outputs/${now:%Y}", ["hydra.run.dir"]),
        ("${hydra.job.name}", ["hydra.run.dir"]),
        ("${lacking}", ["hydra.run.dir"]),
    ],
)
def test_directory_that_a_key_of_the_project_names_is_the_item_s_own(directory, keys):
    config = OmegaConf.create({"hydra": {"run": {"dir": directory}}, "run_dir": "runs", "paths": {"run": "runs"}})
    assert keys_of_directory(config) == keys
