import json

import pytest
from in_project import own_conftest
from training_runs.sweeps.sweep_summary import draw, print_table, read_job


def test_sweep_in_which_nothing_has_a_score_has_no_figure(tmp_path):
    draw(tmp_path, [], ["a"], "val/loss", None)
    assert list(tmp_path.iterdir()) == []


def test_what_is_offered_after_a_search_is_what_its_sweeper_takes(tmp_path, capsys):
    row = {"job": 0, "state": "failed", "best": "", "error": None}
    print_table(tmp_path, [row], [], "val/loss")
    assert f"hydra.sweep.dir={tmp_path}" in capsys.readouterr().out
    (tmp_path / "optuna.db").touch()
    print_table(tmp_path, [row], [], "val/loss")
    said = capsys.readouterr().out
    assert f"hydra.sweeper.storage=sqlite:///{tmp_path}/optuna.db" in said
    assert "hydra.sweep.dir" not in said


def test_job_that_was_checked_and_not_trained_did_not_fail(tmp_path, capsys):
    job = tmp_path / "0"
    (job / "debug").mkdir(parents=True)
    assert read_job(job)["state"] == "failed"  # neither trained nor checked
    items = {"items": [{"item": "overfit", "verdict": "passed"}]}
    (job / "debug" / "report.json").write_text(json.dumps(items), encoding="utf-8")
    row = read_job(job)
    assert (row["state"], row["verdicts"]) == ("checked", "overfit passed")
    print_table(tmp_path, [{"job": 0, "state": row["state"], "best": "", "error": None}], [], "val/loss")
    assert "did not finish" not in capsys.readouterr().out


@pytest.mark.slow
def test_search_by_optuna_in_the_directory_of_another_is_refused_and_goes_on_beside_it(
    script, tmp_path, monkeypatch, capfd
):
    optuna = pytest.importorskip("optuna")
    monkeypatch.chdir(tmp_path)
    search = ["-m", "sweep=optuna", *own_conftest().TINY, "hydra.sweeper.n_trials=1"]
    script("train.py", *search, "hydra.sweep.dir=first")
    before = (tmp_path / "first" / "0" / "run.json").read_bytes()
    with pytest.raises(SystemExit, match=r"hydra\.sweeper\.storage=sqlite:///first/optuna\.db"):
        script("train.py", *search, "hydra.sweep.dir=first")
    assert (tmp_path / "first" / "0" / "run.json").read_bytes() == before
    more = ["hydra.sweep.dir=second", "hydra.sweeper.storage=sqlite:///first/optuna.db"]
    script("train.py", *search, *more)
    study = optuna.load_study(study_name="train", storage="sqlite:///first/optuna.db")
    assert [trial.state.name for trial in study.trials] == ["COMPLETE", "COMPLETE"]
    assert study.trials[0].params != study.trials[1].params
