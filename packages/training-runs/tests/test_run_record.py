import subprocess
from contextlib import suppress

import pytest
from training_runs.records import run_record
from training_runs.records.run_record import RunRecord, git_state, hyperparameters
from training_runs.records.runs import read_record


@pytest.fixture
def record_of(compose, tmp_path):
    """`record_of(error)`: run.json of a run that ended with it."""

    def run(error: BaseException | None = None) -> dict:
        with suppress(ValueError, KeyboardInterrupt, SystemExit), RunRecord(compose()):
            assert read_record(tmp_path)["state"] == "running"
            if error is not None:
                raise error
        return read_record(tmp_path)

    return run


def test_run_that_ends_is_finished(record_of):
    record = record_of()
    assert record["state"] == "finished"
    assert record["started"] <= record["ended"]
    assert "error" not in record


def test_run_that_raises_is_failed_with_the_error(record_of):
    record = record_of(ValueError("loss is not finite"))
    assert record["state"] == "failed"
    assert record["error"] == "ValueError: loss is not finite"


@pytest.mark.parametrize("error", [KeyboardInterrupt(), SystemExit(1)])
def test_run_that_is_stopped_is_interrupted(record_of, error):
    record = record_of(error)
    assert record["state"] == "interrupted"
    assert "error" not in record


def test_record_says_what_ran_with_what(record_of):
    record = record_of()
    assert record["command"].startswith("python ")
    assert record["seed"] == 42
    assert record["packages"].keys() >= {"torch", "pytorch-lightning", "hydra-core"}


def test_hyperparameters_are_flat_and_each_is_there_once(compose):
    values = hyperparameters(compose("optimizer.lr=0.003", "model.net.dropout=0"))
    assert values["optimizer.lr"] == 0.003
    assert values["model.net.dropout"] == 0
    assert values["seed"] == 42
    assert "data.seed" not in values  # ${seed}
    assert not any(key.startswith(("model.optimizer.", "model.criterion.")) for key in values)
    assert all(value is None or isinstance(value, (str, int, float, bool)) for value in values.values())


def test_git_state_outside_a_repository_is_nothing(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    assert git_state() is None


def test_git_state_tells_the_commit_and_whether_files_differ_from_it(tmp_path, monkeypatch):
    def git(*arguments: str) -> str:
        who = ["-c", "user.name=Ada", "-c", "user.email=ada@example.org", "-c", "commit.gpgsign=false"]
        return subprocess.run(["git", *who, *arguments], check=True, capture_output=True, text=True).stdout.strip()

    monkeypatch.chdir(tmp_path)
    git("init")
    git("commit", "--allow-empty", "--message", "first")
    assert git_state() == {"commit": git("rev-parse", "HEAD"), "dirty": False}
    (tmp_path / "new.py").touch()
    assert git_state()["dirty"]


def test_package_that_is_not_installed_has_no_version_in_the_record(record_of, monkeypatch):
    monkeypatch.setattr(run_record, "PACKAGES", ("torch", "no-such-package"))
    assert list(record_of()["packages"]) == ["torch"]
