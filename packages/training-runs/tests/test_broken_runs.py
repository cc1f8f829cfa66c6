"""A run that is damaged, oddly placed or refused stands in nobody else's way."""

import re

import pytest
from in_project import own_conftest
from training_runs.records.runs import find_run, read_record

TINY = own_conftest().TINY


@pytest.mark.parametrize("content", ["{", "[]", '{"state": "running"}'])
def test_damaged_record_is_passed_over_by_last(content, tiny, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("whole", "damaged"):
        (tmp_path / "outputs" / name / "checkpoints").mkdir(parents=True)
        (tmp_path / "outputs" / name / "checkpoints" / "last.ckpt").touch()
    (tmp_path / "outputs" / "whole" / "run.json").write_bytes((tiny / "run.json").read_bytes())
    (tmp_path / "outputs" / "damaged" / "run.json").write_text(content, encoding="utf-8")
    assert find_run("last", "resume").name == "whole"


def test_damaged_job_does_not_keep_its_sweep_from_being_summarised(script, tmp_path):
    script("train.py", "-m", *TINY, "seed=1,2")
    [sweep] = tmp_path.glob("multirun/*/*/*")
    (sweep / "1" / "run.json").write_text("{", encoding="utf-8")
    (sweep / "1" / "report.html").unlink()
    script("eval.py", f"summary='{sweep}'")
    assert "| 1 | 2 | failed |" in (sweep / "summary.md").read_text(encoding="utf-8")
    # A report that is not there is not linked.
    assert re.findall(r'href="([^"]+)"', (sweep / "report.html").read_text(encoding="utf-8")) == ["0/report.html"]


@pytest.mark.slow
@pytest.mark.filterwarnings("error:Callback")
def test_job_that_is_refused_twice_says_why_the_second_time_too(script, tmp_path):
    refused = ["-m", *TINY, "seed=1,2", "scheduler=plateau"]
    for patience in ("-1", "x"):
        with pytest.raises(SystemExit):
            script("train.py", *refused, f"trainer.max_epochs={patience}2", f"hydra.sweep.dir='{tmp_path}/sweep'")
        record = read_record(tmp_path / "sweep" / "1")
        assert f"trainer.max_epochs={patience}2" in record["error"]
        assert f"trainer.max_epochs={patience}2" in (tmp_path / "sweep" / "1" / "report.html").read_text()


def test_log_that_leads_nowhere_is_refused(script, tmp_path):
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "train.log").symlink_to("/nowhere/at/all")
    with pytest.raises(SystemExit, match=r"train\.log is no file that can be written to"):
        script("train.py", *TINY, f"hydra.run.dir='{tmp_path}/run'")


def test_run_in_the_working_directory_comes_to_its_end(script, tmp_path, capsys):
    script("train.py", *TINY, "logger=[csv,tensorboard]", "hydra.run.dir=.")
    assert read_record(tmp_path)["state"] == "finished"
    assert re.search(r"look +tensorboard --logdir \.$", capsys.readouterr().out, re.MULTILINE)


@pytest.mark.parametrize("place", [".", "conf", "src", "src/digit_classifier", ".."])
@pytest.mark.parametrize("key", ["hydra.run.dir", "hydra.sweep.dir"])
def test_directory_of_code_or_configs_is_no_runs(place, key, script, root):
    before = sorted(root.rglob("*"))
    with pytest.raises(SystemExit, match="is where code or configs lie"):
        script("train.py", *TINY, f"{key}='{root}/{place}'", *(["-m"] if "sweep" in key else []))
    assert sorted(root.rglob("*")) == before


def test_log_that_cannot_be_written_is_one_line(script, tmp_path):
    (tmp_path / "run" / "train.log").mkdir(parents=True)
    with pytest.raises(SystemExit, match=r"train\.log is no file that can be written to; move it away, or choose"):
        script("train.py", *TINY, f"hydra.run.dir='{tmp_path}/run'")
    assert [path.name for path in (tmp_path / "run").iterdir()] == ["train.log"]
