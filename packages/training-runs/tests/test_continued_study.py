"""A search by Optuna that was stopped goes on without losing or repeating a job."""

import csv

import optuna
import pytest
from in_project import own_conftest
from pytorch_lightning import Callback
from training_runs.records.runs import read_record

STOPPED = 2  # the job in which somebody presses Ctrl-C


class Interrupt(Callback):
    """Stops the third job, once."""

    jobs = 0

    def on_train_batch_end(self, *arguments):
        Interrupt.jobs += 1
        if Interrupt.jobs == STOPPED + 1:
            raise KeyboardInterrupt


@pytest.mark.slow
def test_search_that_goes_on_keeps_every_job_and_tries_the_open_trial_again(script, tmp_path, monkeypatch):
    monkeypatch.setattr(Interrupt, "jobs", 0)
    monkeypatch.chdir(tmp_path)
    search = ["-m", "sweep=optuna", *own_conftest().TINY, "++trainer.limit_train_batches=1", "hydra.sweep.dir=sweep"]
    search += ["hydra.sweeper.n_trials=4", f"+callbacks.stop._target_={__name__}.Interrupt"]
    with pytest.raises(SystemExit):
        script("train.py", *search)
    sweep = tmp_path / "sweep"
    before = [(sweep / str(job) / "run.json").read_bytes() for job in range(STOPPED)]
    script("train.py", *search)

    assert [(sweep / str(job) / "run.json").read_bytes() for job in range(STOPPED)] == before
    study = optuna.load_study(study_name="train", storage=f"sqlite:///{sweep}/optuna.db")
    assert [trial.state.name for trial in study.trials] == ["COMPLETE", "COMPLETE", "FAIL", "COMPLETE", "COMPLETE"]
    assert study.trials[STOPPED + 1].params == study.trials[STOPPED].params
    points = [str(trial.params) for trial in study.trials]
    assert len(set(points)) == len(points) - 1  # the sampler begins with other numbers than the first time
    # A job is the trial of its number: the best one is where the study says.
    for trial in study.trials:
        record = read_record(sweep / str(trial.number))
        assert f"optimizer={trial.params['optimizer']}" in record["overrides"]
        assert record["metrics"].get("val/accuracy") == trial.value
    with (sweep / "summary.csv").open(encoding="utf-8", newline="") as file:
        assert [row["state"] for row in csv.DictReader(file)] == [
            *["finished"] * STOPPED,
            "interrupted",
            *["finished"] * 2,
        ]


@pytest.mark.slow
def test_search_that_has_all_its_trials_runs_nothing_more(script, tmp_path, monkeypatch):
    monkeypatch.setattr(Interrupt, "jobs", STOPPED + 1)
    monkeypatch.chdir(tmp_path)
    search = ["-m", "sweep=optuna", *own_conftest().TINY, "hydra.sweep.dir=sweep", "hydra.sweeper.n_trials=1"]
    script("train.py", *search)
    before = (tmp_path / "sweep" / "0" / "run.json").read_bytes()
    script("train.py", *search)
    assert (tmp_path / "sweep" / "0" / "run.json").read_bytes() == before
    assert not (tmp_path / "sweep" / "1").exists()
