import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from training_config.errors import ConfigError
from training_runs.records import runs

EVERY_RECORD = {"started": "2026-01-01T00:00:00", "state": "finished", "overrides": [], "metrics": {}}


def make_run(folder: Path, **record) -> Path:
    folder.mkdir(parents=True)
    (folder / "run.json").write_text(json.dumps(EVERY_RECORD | record), encoding="utf-8")
    return folder


def test_run_is_found_by_its_directory(tmp_path):
    run = make_run(tmp_path / "elsewhere")
    assert runs.find_run(str(run)) == run


def test_last_run_is_the_one_with_a_checkpoint_that_started_last_wherever_it_lies(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    trained = {
        "outputs/train/2026-01-02/b": "2026-01-02T10:00:00.000+00:00",
        "multirun/train/2026-01-01/a/0": "2026-01-02T10:00:00.001+00:00",
        "outputs/train/2026-01-03/c": "2026-01-01T10:00:00.000+00:00",
    }
    for name, started in trained.items():
        run = make_run(tmp_path / name, started=started)
        (run / "checkpoints").mkdir()
        (run / "checkpoints/last.ckpt").touch()
    make_run(tmp_path / "outputs/train/2026-01-04/d", started="2026-01-04T10:00:00.000+00:00")
    assert runs.find_run("last").resolve() == tmp_path / "multirun/train/2026-01-01/a/0"


def test_last_run_is_none_of_debug_items(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name, debugging in (("a", False), ("b", True)):
        run = make_run(tmp_path / "outputs/train" / name, started=f"2026-01-02T10:00:00.00{int(debugging)}+00:00")
        (run / "checkpoints").mkdir()
        (run / "checkpoints/last.ckpt").touch()
        if debugging:
            (run / "debug").mkdir()
    assert runs.find_run("last").name == "a"


def test_last_run_where_there_is_none_is_an_error_with_the_way_to_one(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    make_run(tmp_path / "outputs/train/2026-01-04/d")  # stopped before its first checkpoint
    with pytest.raises(ConfigError, match=r"run=last: no run in .* has a checkpoint yet; start one with python train"):
        runs.find_run("last")


def test_directory_that_is_no_run_is_refused(tmp_path):
    with pytest.raises(ConfigError, match=r"run=.* is not the directory of a run: it has no run\.json"):
        runs.find_run(tmp_path)


def test_checkpoints_are_found_by_name_and_by_path(tmp_path):
    run = make_run(tmp_path / "run", best_checkpoint="checkpoints/epoch3.ckpt")
    (run / "checkpoints").mkdir()
    best, last, other = (run / "checkpoints" / f"{name}.ckpt" for name in ("epoch3", "last", "other"))
    for path in (best, last, other):
        path.touch()
    assert runs.find_checkpoint(run, "best") == best
    assert runs.find_checkpoint(run, "last") == last
    assert runs.find_checkpoint(run, str(other)) == other


@pytest.mark.parametrize("name", ["best", "last", "other.ckpt"])
def test_checkpoint_that_is_not_there_is_an_error_that_lists_those_that_are(tmp_path, name):
    run = make_run(tmp_path / "run")
    (run / "checkpoints").mkdir()
    (run / "checkpoints" / "epoch3.ckpt").touch()
    with pytest.raises(ConfigError, match=rf"ckpt={name}: there is no .*checkpoints has epoch3\.ckpt"):
        runs.find_checkpoint(run, name)


def test_checkpoint_of_a_run_without_any_is_an_error_that_says_so(tmp_path):
    with pytest.raises(ConfigError, match="checkpoints has none"):
        runs.find_checkpoint(make_run(tmp_path / "run"), "best")


def test_config_of_a_run_follows_it_to_where_it_lies(tmp_path):
    (tmp_path / ".hydra").mkdir()
    (tmp_path / ".hydra/config.yaml").write_text("seed: 0\noutput_dir: ${hydra:runtime.output_dir}\n", encoding="utf-8")
    cfg = runs.read_config(tmp_path)
    assert cfg.seed == 0
    assert Path(cfg.output_dir) == tmp_path.resolve()


def test_record_comes_back_as_it_was_written_and_leaves_no_draft(tmp_path):
    record = EVERY_RECORD | {"metrics": {"val/loss": 0.1 + 0.2}, "command": "python train.py 'naïve'"}
    runs.write_record(tmp_path, {"state": "running"})
    runs.write_record(tmp_path, record)
    assert runs.read_record(tmp_path) == record
    assert [path.name for path in tmp_path.iterdir()] == ["run.json"]


class RunsCode:
    """Makes a folder where somebody unpickles it."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self):
        return os.mkdir, (str(self.mark),)


def test_checkpoint_that_would_run_code_is_refused_and_its_code_does_not_run(tmp_path):
    path = tmp_path / "code.ckpt"
    torch.save({"state_dict": RunsCode(tmp_path / "ran")}, path)
    with pytest.raises(ConfigError, match=r"ckpt=.* is refused: to load \S+ could run code; use ckpt=best"):
        runs.read_checkpoint(path)
    assert not (tmp_path / "ran").exists()
    torch.load(path, weights_only=False)  # it was no dud
    assert (tmp_path / "ran").exists()


@pytest.mark.parametrize("content", [b"", b"hello", b"PK\x03\x04 and no more"])
def test_file_that_is_no_checkpoint_is_refused(tmp_path, content):
    path = tmp_path / "x.ckpt"
    path.write_bytes(content)
    with pytest.raises(ConfigError, match="is refused: it is damaged or of another kind"):
        runs.read_checkpoint(path)


def test_run_that_was_resumed_last_is_the_last(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name, starts in {"a": ["2026-01-01", "2026-01-04"], "b": ["2026-01-02"], "c": ["2026-01-03"]}.items():
        run = make_run(tmp_path / "outputs" / name, started=starts[0], starts=[{"started": each} for each in starts])
        (run / "checkpoints").mkdir()
        (run / "checkpoints/last.ckpt").touch()
    assert runs.find_run("last", "resume").name == "a"


def test_run_that_another_process_has_claimed_is_refused_until_that_ends(tmp_path):
    code = f"import pathlib, {runs.__name__} as runs; lock = runs.claim(pathlib.Path()); print(1, flush=True); input()"
    command = [sys.executable, "-c", code]
    with subprocess.Popen(command, cwd=tmp_path, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        other.stdout.readline()
        with pytest.raises(ConfigError, match=rf"is still running \(process {other.pid} on .*\)"):
            runs.claim(tmp_path)
        other.kill()
    runs.release(tmp_path, runs.claim(tmp_path))
    assert list(tmp_path.iterdir()) == []


def test_run_that_was_killed_is_free_at_once_although_a_process_that_it_forked_lives(tmp_path):
    code = f"""
import os, pathlib, sys, {runs.__name__} as runs
lock = runs.claim(pathlib.Path())
os.fork()
print(1, flush=True)  # by each of the two: the new one gives up its copy of the lock when it first runs
sys.stdin.read()
"""
    command = [sys.executable, "-c", code]
    with subprocess.Popen(command, cwd=tmp_path, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as killed:
        killed.stdout.readline()
        killed.stdout.readline()
        killed.kill()
        killed.wait()
        runs.release(tmp_path, runs.claim(tmp_path))  # the other one waits for the end of its input


ODD = [{"overrides": "seed=1"}, {"overrides": [1]}, {"metrics": {"val/loss": "low"}}, {"starts": []}, {"starts": [1]}]
ODD += [
    {"starts": [{"started": "yesterday"}]},
    {"best_checkpoint": 3},
    {"packages": ["torch"]},
    {"state": 5},
    {"data": 7},
]


@pytest.mark.parametrize("odd", ODD, ids=str)
def test_record_that_was_edited_into_another_kind_is_refused_and_names_the_value(odd, tmp_path):
    run = make_run(tmp_path / "run", **odd)
    with pytest.raises(ConfigError, match=rf"run\.json is damaged: it says no {next(iter(odd))}; name another run"):
        runs.read_record(run)


def test_directory_that_cannot_be_locked_is_used_and_that_is_said(tmp_path, monkeypatch, capsys):
    def refuse(*arguments):
        raise OSError(37, "No locks available")

    monkeypatch.setattr("fcntl.flock", refuse)
    lock = runs.claim(tmp_path)
    assert "cannot be locked ([Errno 37] No locks available)" in capsys.readouterr().err
    runs.release(tmp_path, lock)
    assert list(tmp_path.iterdir()) == []


def test_directory_whose_holder_cannot_be_written_down_is_used(tmp_path):
    (tmp_path / runs.HOLDER).mkdir()
    runs.release(tmp_path, runs.claim(tmp_path))
    assert not runs.is_alive(tmp_path)
