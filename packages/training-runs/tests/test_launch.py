import re
from types import SimpleNamespace

import pytest
from in_project import own_conftest
from training_config.errors import ConfigError
from training_runs.launching import launch, parent, ranks, supervise
from training_runs.launching.watchdog import verdict
from training_runs.records.runs import claim, is_alive, release


def test_directory_is_held_for_as_long_as_ranks_may_live_in_it(compose, tmp_path, monkeypatch):
    monkeypatch.setattr(launch, "supervised", lambda cfg, script, folder: is_alive(folder))
    cfg = compose("trainer=ddp", "trainer.accelerator=cpu")
    assert launch.run_in_processes(cfg, "train.py") is True
    assert not is_alive(tmp_path)


def test_second_start_in_several_processes_is_refused_before_any_of_them(compose, tmp_path):
    lock = claim(tmp_path)
    cfg = compose("trainer=ddp", "trainer.accelerator=cpu")
    with pytest.raises(ConfigError, match="is still running"):
        launch.run_in_processes(cfg, "train.py")
    release(tmp_path, lock)
    assert list(tmp_path.iterdir()) == []


def test_ranks_have_as_long_to_stop_under_a_torch_without_the_argument(monkeypatch):
    with_it = SimpleNamespace(__dataclass_fields__={"shutdown_timeout": None})
    without, context = (
        SimpleNamespace(__dataclass_fields__={}),
        SimpleNamespace(close=lambda signal=None, timeout=30: timeout),
    )
    monkeypatch.setattr(supervise, "PContext", context)
    monkeypatch.setattr(supervise, "LaunchConfig", with_it)
    assert supervise.patience() == {"shutdown_timeout": supervise.STOP_SECONDS}
    assert context.close() == 30
    monkeypatch.setattr(supervise, "LaunchConfig", without)
    assert supervise.patience() == {}
    assert context.close() == supervise.STOP_SECONDS


RANK = {"TORCHELASTIC_RUN_ID": "x", "MASTER_ADDR": "localhost", "MASTER_PORT": "1", "LOCAL_RANK": "0", "RANK": "0"}
RANK |= {"LOCAL_WORLD_SIZE": "1", "WORLD_SIZE": "1"}


@pytest.mark.parametrize(
    "variables",
    [
        {"WORLD_SIZE": "0"},
        {"LOCAL_WORLD_SIZE": "0"},
        RANK | {"RANK": "5"},
        RANK | {"LOCAL_RANK": "1"},
        RANK | {"WORLD_SIZE": "0"},
        {"SLURM_STEP_ID": "1", "SLURM_STEP_NUM_TASKS": "abc"},
        {"SLURM_STEP_ID": "1", "SLURM_STEP_NUM_TASKS": "2", "SLURM_PROCID": "2", "SLURM_JOB_ID": "1"},
        {"RANK": "٣"},
    ],
    ids=str,
)
def test_rank_that_nobody_would_wait_for_is_refused_in_one_line(variables, monkeypatch):
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    [line] = ranks.misshapen()
    assert any(f"{name}={value}" in line for name, value in variables.items())


def test_supervisor_that_was_killed_is_said_to_be_and_by_whom_where_that_is_known(monkeypatch):
    monkeypatch.setattr(parent, "kills", lambda: 3)
    assert "SIGKILL from outside: by somebody, a scheduler's limit, or the system" in launch.ended(-9, 3)
    assert "SIGKILL, by the system, for want of memory" in launch.ended(-9, 2)
    assert launch.ended(-15, 2).endswith("was ended by SIGTERM")


def test_more_processes_than_cores_are_refused_in_one_line(train, capsys, monkeypatch):
    monkeypatch.setattr("training_runs.start.feasibility.cores", lambda: 4)
    with pytest.raises(SystemExit):
        train(*own_conftest().TINY, "trainer=ddp", "trainer.accelerator=cpu", "trainer.devices=99")
    line = "trainer.devices=99 but this machine has 4 CPU cores, and every process needs one; "
    assert f"{line}use trainer.devices=4 or less" in capsys.readouterr().err.splitlines()


def test_more_loader_processes_than_the_machine_can_hold_are_refused_in_one_line(train_in, tmp_path, capsys):
    with pytest.raises(SystemExit) as exited:
        train_in(tmp_path, *own_conftest().TINY, "data.num_workers=1000000")
    [line] = [line for line in capsys.readouterr().err.splitlines() if line.startswith("data.num_workers=1000000 ")]
    assert exited.value.code == 1
    assert re.search(r"this machine can hold \d+ at most, .*; use data.num_workers=\d+, one for each CPU core", line)
    assert list(tmp_path.glob("outputs/**/run.json")) == []


@pytest.mark.parametrize(
    ("counts", "stacks", "said"),
    [
        ({0: 7, 1: 5}, {0: "a", 1: "b"}, "rank 1 of 2 made no progress for 10 minutes; "),
        ({0: 7, 1: 7}, {0: "a", 1: ""}, "rank 1 of 2 made no progress for 10 minutes, and stopped: "),
        ({0: 5, 1: 5, 2: 6}, {0: "a", 1: "b", 2: "c"}, "ranks 0, 1 of 3 made no progress"),
    ],
)
def test_rank_that_the_others_wait_for_is_named(counts, stacks, said):
    assert verdict(counts, stacks, 10).startswith(said)


@pytest.mark.parametrize(
    ("variables", "job"),
    [({}, "7"), ({"SLURM_ARRAY_JOB_ID": "6", "SLURM_ARRAY_TASK_ID": "2"}, "6_2")],
)
def test_slurm_is_asked_to_start_this_very_job_again(variables, job, monkeypatch):
    for name, value in {"SLURM_JOB_ID": "7", **variables}.items():
        monkeypatch.setenv(name, value)
    asked = []
    monkeypatch.setattr(ranks.subprocess, "run", lambda command, check: asked.append(command))
    monkeypatch.setattr(ranks, "let_go", lambda: None)  # of this process's signals
    ranks.ask_for_requeue()
    assert asked == [["scontrol", "requeue", job]]
    assert ranks.can_requeue()
    monkeypatch.setenv("SLURM_JOB_NAME", "interactive")
    assert not ranks.can_requeue()


def test_tasks_of_srun_are_counted_by_node_where_nobody_has_said_so(monkeypatch):
    variables = {"STEP_ID": "0", "STEP_NUM_TASKS": "4", "STEP_NUM_NODES": "2", "NTASKS": "4", "PROCID": "1"}
    for name, value in variables.items():
        monkeypatch.setenv(f"SLURM_{name}", value)
    monkeypatch.setenv("SLURM_NTASKS_PER_NODE", "")  # put back afterwards
    monkeypatch.delenv("SLURM_NTASKS_PER_NODE")
    ranks.explain_allocation()
    assert ranks.os.environ["SLURM_NTASKS_PER_NODE"] == "2"
