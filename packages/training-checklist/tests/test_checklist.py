import atexit
import json
import os
import re
import signal
import subprocess
import sys

import pytest
from omegaconf import OmegaConf
from training_checklist.experiments.anomaly import Anomaly
from training_checklist.starting import start
from training_checklist.starting.placement import keys_of_directory
from training_checklist.starting.start import Starter

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


def test_report_of_an_item_names_its_files_where_they_are(train):
    run = train("+debug=checklist", "hydra.callbacks.debug.only=[trace]")
    assert (run / "debug/trace/debug/trace.md").is_file()
    for path in ("debug/trace/debug/report.json", "debug/report.json"):
        [item] = json.loads((run / path).read_text(encoding="utf-8"))["items"]
        assert item["seen"].endswith(f"{run.name}/debug/trace/debug/trace.md")


def test_items_that_mean_nothing_after_a_crash_are_skipped_with_the_reason(train, tmp_path):
    with pytest.raises(SystemExit) as stopped:
        train("+debug=checklist", *SMALL, "model.net.num_classes=3")
    assert stopped.value.code == 1
    [path] = tmp_path.glob("outputs/train/*/*/debug/report.json")
    first, second = json.loads(path.read_text(encoding="utf-8"))["items"]
    assert (first["item"], first["verdict"]) == ("fast_dev_run", "failed")
    assert (second["item"], second["verdict"]) == ("anomaly", "skipped")
    assert "training fails before it has come to its end, see fast_dev_run" in second["skipped"]


def test_item_that_dies_costs_its_own_verdict_alone(train, tmp_path, monkeypatch):
    monkeypatch.setattr(Anomaly, "on_train_start", lambda *_: os.kill(os.getpid(), signal.SIGKILL))
    with pytest.raises(SystemExit) as stopped:
        train("+debug=checklist", "hydra.callbacks.debug.only=[anomaly,fast_dev_run,overflow]")
    assert stopped.value.code == 2
    [path] = tmp_path.glob("outputs/train/*/*/debug/report.json")
    items = json.loads(path.read_text(encoding="utf-8"))["items"]
    assert [item["verdict"] for item in items] == ["passed", "tool error", "passed"]
    assert "its process ended with signal 9" in items[1]["error"]


@pytest.mark.parametrize(("stop", "code"), [(KeyboardInterrupt(), 130), (SystemExit(143), 143)])
def test_stopped_checklist_reports_what_it_has(train, tmp_path, monkeypatch, stop, code):
    run = Starter.run

    def interrupted(starter, arguments, *rest):
        if any("anomaly" in each for each in arguments):
            raise stop
        return run(starter, arguments, *rest)

    monkeypatch.setattr(Starter, "run", interrupted)
    with pytest.raises(SystemExit) as stopped:
        train("+debug=checklist", *SMALL)
    assert stopped.value.code == code
    [path] = tmp_path.glob("outputs/train/*/*/debug/report.json")
    report = json.loads(path.read_text(encoding="utf-8"))
    first, second = report["items"]
    assert report["verdict"] == "skipped"
    assert (first["verdict"], second["verdict"], second["skipped"]) == ("passed", "skipped", "not run: interrupted")


def test_item_is_ended_at_its_time_limit(train, tmp_path, monkeypatch):
    monkeypatch.setattr(Anomaly, "on_train_start", lambda *_: signal.pause())
    with pytest.raises(SystemExit):
        train("+debug=checklist", "hydra.callbacks.debug.only=[anomaly]", "++checks.checklist.seconds=5")
    [path] = tmp_path.glob("outputs/train/*/*/debug/report.json")
    [item] = json.loads(path.read_text(encoding="utf-8"))["items"]
    assert "its process did not end within 5 s" in item["error"]
    assert not list(path.parent.glob(".*"))


def test_item_that_does_not_end_after_its_report_keeps_its_verdict(train, monkeypatch):
    monkeypatch.setattr(Anomaly, "on_train_start", lambda *_: atexit.register(signal.pause))
    monkeypatch.setattr(start, "LEAVING", 0.5)
    run = train("+debug=checklist", "hydra.callbacks.debug.only=[anomaly]", "++checks.checklist.seconds=60")
    assert [item["verdict"] for item in read(run)["items"]] == ["passed"]


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


@pytest.mark.parametrize("callback", ["checklist.Checklist", "report.Report", "one_process.OneProcess"])
def test_callbacks_of_a_command_leave_the_import_of_torch_to_the_start_of_items(callback):
    module, _, name = callback.partition(".")
    program = (
        f"import sys; sys.path[:] = {sys.path!r}; from training_checklist.hydra_callbacks.{module} import {name}; "
        "sys.exit('torch' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


@pytest.mark.parametrize(("given", "expected"), [(None, "PASSIVE"), ("ACTIVE", "ACTIVE")])
def test_threads_of_items_wait_asleep_unless_the_user_says_otherwise(monkeypatch, given, expected):
    monkeypatch.setattr(os, "environ", {} if given is None else {"OMP_WAIT_POLICY": given})
    monkeypatch.setattr(start, "import_all", lambda names: None)
    monkeypatch.setattr(start, "can_fork", lambda: False)
    monkeypatch.setattr(Starter, "start_anew", lambda *_: None)
    config = OmegaConf.create({"hydra": {"job": {"env_set": {"OF_JOB": 1}}, "runtime": {"cwd": "."}}})
    Starter(config, None)._start([], None, None)
    assert os.environ == {"OMP_WAIT_POLICY": expected, "OF_JOB": "1"}
