"""Bad input gets one line, exit code 1, and leaves nothing half-written."""

import contextlib
import dataclasses
import re
import socket
import subprocess
from pathlib import Path

import pytest

TABLE = Path(__file__).parent / "bad_input" / "table.py"
GENERATED = Path(__file__).parent / "bad_input" / "generated.py"
SMALL = ("data=mnist_sample", "trainer=cpu", "logger=csv", "callbacks=[checkpoint]", "trainer.max_epochs=1")


@pytest.fixture(scope="module")
def table(project) -> str:
    """What pytest said of the table, run in a generated project with that project's own fixtures."""
    return run_within(project, TABLE)


def run_within(project, tests: Path) -> str:
    """Return what pytest says of a file of tests that is run in a generated project, with that project's fixtures."""
    paths = {"PYTHONPATH": str(project.folder / "tests")}
    within = dataclasses.replace(project, environment=project.environment | paths)
    options = ("-q", "-p", "conftest", "-p", "no:cacheprovider", "-c", "pyproject.toml", "--rootdir", project.folder)
    options += ("--confcutdir", tests.parent)  # not the template's own conftest.py
    finished = within.run("-m", "pytest", *options, tests)
    return finished.stdout + finished.stderr


def test_every_row_of_the_table_is_refused_with_its_line(table):
    last = table.strip().splitlines()[-1]
    assert "passed" in last, table
    assert "failed" not in last, table


def test_table_has_more_than_a_hundred_rows(table):
    assert int(table.strip().splitlines()[-1].split()[0]) > 100


@pytest.mark.slow
def test_no_bad_value_of_any_key_ends_in_a_traceback(project):
    told = run_within(project, GENERATED)
    last = told.strip().splitlines()[-1]
    assert "passed" in last, told
    assert "failed" not in last, told


def test_exit_code_and_stderr_are_those_of_a_real_process(project, tmp_path):
    finished = project.run("train.py", *SMALL, "seed=-1", f"hydra.run.dir='{tmp_path}'")
    assert finished.returncode == 1
    assert "seed=-1 must be a whole number from 0 to 4294967295 or null" in finished.stderr.splitlines()
    assert "Traceback" not in finished.stderr
    assert not (tmp_path / "run.json").exists()


@pytest.mark.slow
def test_config_error_of_ranks_is_one_line_and_ends_the_job(project, tmp_path):
    few = ("trainer=ddp", "trainer.accelerator=cpu", "trainer.devices=2", "data.val_size=1")
    finished = project.run("train.py", *SMALL, *few, f"hydra.run.dir='{tmp_path}'")
    assert finished.returncode == 1
    line = "data.val_size=1 must lie between 2 and 3998: mnist_sample has 4000 training images"
    assert line in finished.stderr
    assert "Traceback" not in finished.stderr


@pytest.mark.slow
def test_project_in_a_directory_with_a_space_trains_and_evaluates(generate, install, tmp_path):
    project = install(generate(tmp_path / "größe und 数字"))
    one_batch = ("++trainer.limit_train_batches=1", "++trainer.limit_val_batches=1", "hydra.run.dir=outputs/a run")
    assert " " in str(project.folder)
    trained = project.run("train.py", *SMALL, *one_batch)
    assert trained.returncode == 0, trained.stderr
    tested = project.run("eval.py", "run=outputs/a run", "accelerator=cpu")
    assert tested.returncode == 0, tested.stderr
    assert (project.folder / "outputs/a run/eval/best/metrics.json").is_file()


def test_tensorboard_takes_another_port_where_its_own_is_in_use(project, tmp_path):
    command = [project.python, "-m", "tensorboard.main", "--logdir", tmp_path]
    with socket.socket() as taken:
        with contextlib.suppress(OSError):  # somebody else has it
            taken.bind(("127.0.0.1", 6006))
            taken.listen()
        board = subprocess.Popen(command, env=project.environment, stderr=subprocess.PIPE, text=True)
        try:
            said = next((line for line in board.stderr if "at http://" in line), "")
        finally:
            board.kill()
            board.communicate()
    assert int(re.search(r"http://[^:]+:(\d+)/", said)[1]) > 6006
