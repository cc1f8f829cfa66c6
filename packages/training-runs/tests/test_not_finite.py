"""A run that diverged is finished, and its numbers harm no other."""

import csv
import json

import pytest
from training_runs.records.runs import read_record

DIVERGING = ("optimizer=sgd", "optimizer.lr=1e30", "trainer.max_epochs=2")


def refuse(token: str):
    raise ValueError(f"{token} is not JSON")


def test_run_that_diverged_is_finished_and_its_record_is_strict_json(train):
    run = train(*DIVERGING)
    record = json.loads((run / "run.json").read_text(encoding="utf-8"), parse_constant=refuse)
    assert record["state"] == "finished"
    assert record["metrics"]["train/loss"] is None


@pytest.mark.slow
def test_rerun_of_a_run_that_diverged_agrees(train, train_as_given):
    run = train(*DIVERGING)
    again = train_as_given(f"rerun='{run}'")
    assert read_record(again)["rerun"]["agrees"]


@pytest.mark.slow
@pytest.mark.parametrize("order", ["1e30,0.01", "0.01,1e30"])
def test_job_that_diverged_is_never_the_best_of_a_sweep(order, sweep):
    jobs = sweep("optimizer=sgd", f"optimizer.lr={order}", "monitor=val/loss", "mode=min")
    with (jobs[0].parent / "summary.csv").open(encoding="utf-8", newline="") as file:
        assert [row["optimizer.lr"] for row in csv.DictReader(file) if row["best"]] == ["0.01"]
