"""Sweeps: their summary, their continuation, and what else than a loop runs or chooses their jobs."""

import csv
import json
import re
import statistics
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from faulty.commands import jobs_of, the_sweep, wait_for, with_small
from faulty.planted import REPAIRED

PNG = b"\x89PNG\r\n\x1a\n"
KINDS = ("never", "batch_raise_0", "batch_interrupt_0")
FAULTY = (
    "-m",
    "trainer=cpu",
    "logger=csv",
    "+callbacks.fault._target_=faulty.planted.PlantedFailure",
    "seed=1,2",
    f"+callbacks.fault.kind={','.join(KINDS)}",
)


def look_at(sweep: Path) -> SimpleNamespace:
    """Return what lies in the directory of a sweep now: later commands change it."""
    with (sweep / "summary.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    records = {job: (sweep / job / "run.json").read_text(encoding="utf-8") for job in jobs_of(sweep)}
    return SimpleNamespace(
        rows=rows,
        records=records,
        jobs={job: json.loads(text) for job, text in records.items()},
        csv=(sweep / "summary.csv").read_bytes(),
        md=(sweep / "summary.md").read_text(encoding="utf-8"),
        png=(sweep / "figures" / "swept_keys.png").read_bytes(),
    )


# One sweep of which a job fails and the next is interrupted; continued when the faults are repaired


@pytest.fixture(scope="module")
def interrupted(commands, tmp_path_factory):
    folder = tmp_path_factory.mktemp("faulty")
    finished = commands.train(folder, *FAULTY)
    sweep = the_sweep(folder)
    return SimpleNamespace(folder=folder, sweep=sweep, finished=finished, found=look_at(sweep))


@pytest.fixture(scope="module")
def continued(commands, interrupted):
    again = (*FAULTY, f"hydra.sweep.dir={interrupted.sweep.relative_to(interrupted.folder)}")
    finished = commands.train(interrupted.folder, *again, **{REPAIRED: "1"})
    return SimpleNamespace(finished=finished, found=look_at(the_sweep(interrupted.folder)))


def test_an_interrupted_sweep_is_summarised_with_all_that_became_of_its_jobs(interrupted):
    assert interrupted.finished.code == 130
    # The second seed's jobs were not started, and the first seed alone is no column.
    rows = interrupted.found.rows
    assert [(row["job"], row["callbacks.fault.kind"], row["state"]) for row in rows] == [
        ("0", "never", "finished"),
        ("1", "batch_raise_0", "failed"),
        ("2", "batch_interrupt_0", "interrupted"),
    ]
    assert [row["error"] for row in rows] == ["", "RuntimeError: planted: batch_raise_0", ""]
    assert [row["best"] for row in rows] == ["*", "", ""]
    assert interrupted.found.png.startswith(PNG)
    assert interrupted.found.md.count("\n| ") == 2 + len(rows)


def test_the_summary_is_a_table_in_the_terminal_too(interrupted):
    output = interrupted.finished.output
    table = output[output.index(f"sweep {interrupted.sweep.relative_to(interrupted.folder)}") :]
    cells = [re.split(r"\s*│\s*", line.strip("│ ")) for line in table.splitlines() if line.startswith("│")]
    assert [row[:3] for row in cells] == [
        ["0", "never", "finished"],
        ["1", "batch_raise_0", "failed"],
        ["2", "batch_interrupt_0", "interrupted"],
    ]
    assert "job 1: RuntimeError: planted: batch_raise_0" in table


def test_a_continued_sweep_runs_what_is_not_finished_and_nothing_else(interrupted, continued):
    assert continued.finished.code == 0, continued.finished.output
    before, after = interrupted.found, continued.found
    assert list(after.jobs) == ["0", "1", "2", "3", "4", "5"]
    assert {job["state"] for job in after.jobs.values()} == {"finished"}
    assert after.records["0"] == before.records["0"]
    assert continued.finished.output.count("is finished; it is not run again") == 1
    for job in ("1", "2"):  # one goes on, the other begins anew: its last start is a later one
        assert after.jobs[job]["starts"][-1]["started"] > before.jobs[job]["starts"][-1]["started"]


def test_a_continued_sweep_is_what_an_uninterrupted_one_would_be(continued):
    # The kind of a fault that is repaired changes nothing.
    jobs = [job["metrics"] for job in continued.found.jobs.values()]
    assert jobs == [jobs[0]] * 3 + [jobs[3]] * 3
    assert jobs[0] != jobs[3]


def test_the_summary_of_a_swept_seed_has_mean_and_deviation(continued):
    values = [job["metrics"]["val/accuracy"] for job in continued.found.jobs.values()]
    for number, kind in enumerate(KINDS):
        pair = (values[number], values[number + 3])
        mean, deviation = statistics.mean(pair), statistics.stdev(pair)
        line = f"callbacks.fault.kind={kind}: val/accuracy {mean:.4f} ± {deviation:.4f} over 2 seeds"
        assert f"\n- {line}\n" in continued.found.md
        assert f"  {line}\n" in continued.finished.output


def test_the_summary_marks_the_best_job_and_has_every_metric(continued):
    jobs, rows = continued.found.jobs, continued.found.rows
    best = max(jobs, key=lambda job: jobs[job]["metrics"]["val/accuracy"])
    assert [row["job"] for row in rows if row["best"]] == [best]
    for row in rows:
        metrics = {name: float(value) for name, value in row.items() if "/" in name}
        expected = jobs[row["job"]]["metrics"].items()
        assert metrics == {name: value for name, value in expected if not name.startswith("train/")}


def test_eval_makes_the_same_summary_again(commands, interrupted, continued):
    for name in ("summary.csv", "summary.md", "report.html", "figures/swept_keys.png"):
        (interrupted.sweep / name).unlink()
    finished = commands.run(interrupted.folder, commands.project / "eval.py", "summary=last")
    assert finished.code == 0, finished.output
    again = look_at(interrupted.sweep)
    assert (again.csv, again.md) == (continued.found.csv, continued.found.md)
    assert again.png.startswith(PNG)
    assert (interrupted.sweep / "report.html").is_file()
    assert again.records == continued.found.records


# Figures of jobs


def test_jobs_of_a_sweep_have_figures_where_each_was_to_have_them(commands, tmp_path):
    small = ("+trainer.limit_train_batches=1", "callbacks=[checkpoint,figures]", "logger=[tensorboard,csv]", "seed=1,2")
    for figures, count in {"true": 0, "each": 2}.items():
        finished = commands.train(tmp_path / figures, "-m", "trainer=cpu", *small, f"figures={figures}")
        assert finished.code == 0, finished.output
        sweep = the_sweep(tmp_path / figures)
        drawn = {path.parents[1].name for path in sweep.glob("[0-9]/figures/*.svg")}
        assert len(drawn) == count
        for job in drawn:
            kinds = {path.stem for path in (sweep / job / "figures").iterdir()}
            assert kinds == {"learning_curves", "confusion_matrix", "calibration", "worst_mistakes"}
            assert (sweep / job / "report.html").read_text(encoding="utf-8").count("<img ") == len(kinds)
            events = b"".join(path.read_bytes() for path in (sweep / job).glob("tensorboard/events.*"))
            assert events.count(PNG) == 3


# Launchers


@pytest.mark.slow
@pytest.mark.parametrize("launcher", ["joblib", "submitit_local", "ray"])
def test_another_launcher_starts_jobs_once_more_that_were_lost_or_failed(launcher, commands, tmp_path):
    kinds = ("never", "batch_kill_0", "batch_raise_0")
    fault = ("+callbacks.fault._target_=faulty.planted.PlantedFailure", f"+callbacks.fault.kind={','.join(kinds)}")
    once = "+callbacks.fault.once=${output_dir}/failed"
    finished = commands.train(tmp_path, "-m", f"launcher={launcher}", "trainer=cpu", "logger=csv", *fault, once)
    assert finished.code == 0, finished.output
    sweep = the_sweep(tmp_path)
    found = look_at(sweep)
    assert [(job["state"], job["steps"]) for job in found.jobs.values()] == [("finished", 14)] * 3
    assert [row["state"] for row in found.rows] == ["finished"] * 3
    assert [path.parent.name for path in sorted(sweep.rglob("train.log"))] == ["0", "1", "2"]
    starts = [len(job["starts"]) for job in found.jobs.values()]
    assert starts[1:] == [2, 2]
    if launcher != "joblib":  # which ends all its processes when one is lost
        assert starts[0] == 1
    metrics = [job["metrics"] for job in found.jobs.values()]
    assert metrics == [metrics[0]] * 3


@pytest.mark.slow
@pytest.mark.parametrize("launcher", ["submitit_local", "ray"])
def test_a_sweep_of_another_launcher_whose_command_was_killed_goes_on(launcher, commands, tmp_path):
    asked = ("-m", f"launcher={launcher}", "trainer=cpu", "logger=csv", "seed=1,2", "hydra.sweep.dir=sweep")
    arguments = with_small(*asked, "trainer.max_epochs=4")
    process = commands.start(tmp_path, commands.project / "train.py", *arguments)
    wait_for(lambda: len([*tmp_path.glob("sweep/*/checkpoints/last.ckpt")]) == 2, 120, "a checkpoint of each job")
    process.kill()
    commands.wait_until_gone(120)  # submitit's jobs end by themselves, Ray's with the command
    finished = commands.run(tmp_path, commands.project / "train.py", *arguments)
    assert finished.code == 0, finished.output
    found = look_at(tmp_path / "sweep")
    assert [(job["state"], job["steps"], job["seed"]) for job in found.jobs.values()] == [
        ("finished", 56, 1),
        ("finished", 56, 2),
    ]


def test_slurm_is_asked_for_what_the_config_says(commands, tmp_path):
    # In SLURM's place, commands that keep the script and submit nothing.
    programs = tmp_path / "bin"
    programs.mkdir()
    for name in ("sbatch", "srun", "scontrol"):
        (programs / name).write_text(f'#!/bin/sh\ncp "$1" "{tmp_path}/script" 2>/dev/null\nexit 1\n', encoding="utf-8")
        (programs / name).chmod(0o755)
    path = f"{programs}:{commands.environment['PATH']}"
    asked = ("hydra.launcher.partition=gpu", "hydra.launcher.gpus_per_node=2", "hydra.launcher.timeout_min=90")
    finished = commands.train(tmp_path / "run", "-m", "launcher=submitit_slurm", "seed=1,2", *asked, PATH=path)
    assert finished.code != 0  # nothing was submitted
    script = (tmp_path / "script").read_text(encoding="utf-8")
    options = dict(re.findall(r"^#SBATCH --([\w-]+)=(.*)$", script, flags=re.MULTILINE))
    expected = {
        "partition": "gpu",
        "gpus-per-node": "2",
        "time": "90",
        "cpus-per-task": "4",
        "ntasks-per-node": "1",
        "nodes": "1",
        "job-name": "train",
    }
    assert expected.items() <= options.items()
    assert options["array"].startswith("0-1")  # both jobs
    assert sys.executable in script


# Optuna


@pytest.mark.slow
def test_optuna_finds_the_same_parameters_with_the_same_seed(commands, tmp_path):
    found = []
    for name in ("first", "second"):
        search = ("-m", "sweep=optuna", "trainer=cpu", "logger=csv", "seed=7", "hydra.sweeper.n_trials=3")
        finished = commands.train(tmp_path / name, *search)
        assert finished.code == 0, finished.output
        sweep = the_sweep(tmp_path / name)
        assert (sweep / "optuna.db").is_file()
        assert jobs_of(sweep) == ["0", "1", "2"]
        found.append((sweep / "optimization_results.yaml").read_text(encoding="utf-8"))
        rows = look_at(sweep).rows
        best = max(rows, key=lambda row: float(row["val/accuracy"]))
        assert [row["job"] for row in rows if row["best"]] == [best["job"]]
        assert f"best_value: {best['val/accuracy']}" in found[-1]
    assert found[0] == found[1]
    assert len({row["optimizer.lr"] for row in rows}) == 3
