"""The example in the README of training-runs, as somebody who copies it meets it."""

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

README = (Path(__file__).parents[1] / "README.md").read_text(encoding="utf-8")
FILES = dict(re.findall(r"```\w+\n# (\S+)\n(.*?)```", README, flags=re.DOTALL))
COMMANDS = re.findall(r"^python (train\.py.*?)(?: +#.*)?$", README, flags=re.MULTILINE)


@pytest.fixture(scope="module")
def copied(tmp_path_factory):
    """The folder with the example's files, after all of its commands; what they said."""
    folder = tmp_path_factory.mktemp("example")
    for name, text in FILES.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    said = []
    for command in COMMANDS:
        arguments = [sys.executable, *shlex.split(command)]
        finished = subprocess.run(arguments, cwd=folder, env=environment, capture_output=True, text=True, timeout=300)
        assert finished.returncode == 0, finished.stderr
        said.append(finished.stdout)
    return folder, said


@pytest.fixture(scope="module")
def records(copied):
    paths = sorted(copied[0].glob("outputs/**/run.json"), key=lambda path: path.parent.name)
    return [json.loads(path.read_text(encoding="utf-8")) for path in paths]


def test_example_has_its_files_and_commands():
    assert list(FILES) == ["train.py", "conf/train.yaml", "parts.py"]
    assert len(COMMANDS) == 5


@pytest.mark.slow
def test_every_run_of_the_example_finishes_and_has_a_report(copied, records):
    assert [record["state"] for record in records] == ["finished"] * 3
    assert len(list(copied[0].glob("outputs/**/report.html"))) == 3


@pytest.mark.slow
def test_run_of_the_example_that_was_made_longer_agrees_with_one_that_was_as_long_at_once(records):
    assert [len(record["starts"]) for record in records[:2]] == [2, 1]
    assert [record["epochs"] for record in records[:2]] == [6, 6]
    assert records[1]["rerun"]["agrees"]


@pytest.mark.slow
def test_example_runs_in_two_processes(records):
    assert [record["world_size"] for record in records] == [1, 1, 2]


@pytest.mark.slow
def test_sweep_of_the_example_has_a_summary(copied):
    folder, said = copied
    [sweep] = {path.parents[1] for path in folder.glob("multirun/**/run.json")}
    assert {"summary.csv", "summary.md", "report.html"} <= {path.name for path in sweep.iterdir()}
    assert "val/loss" in said[-1]
