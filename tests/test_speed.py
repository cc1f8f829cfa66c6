"""The benchmark runs: its figures are no test, since they depend on the machine."""

import os
import subprocess
import sys

import pytest


def benchmark(template, project, out, *arguments: str) -> list[str]:
    """The rows of the table that `run.py` wrote."""
    command = [project.python, template / "benchmarks" / "speed" / "run.py", "--project", project.folder, "--out", out]
    command += ["--epochs", "1", "--repeats", "1", "--limit", "2", *arguments]
    environment = project.environment | {"PATH": os.pathsep.join((os.path.dirname(sys.executable), os.environ["PATH"]))}
    finished = subprocess.run(command, env=environment, capture_output=True, encoding="utf-8")
    assert finished.returncode == 0, finished.stdout + finished.stderr
    return [line for line in out.read_text(encoding="utf-8").splitlines() if line.startswith("| ")][2:]


@pytest.mark.slow
def test_speed_of_the_project_is_measured_beside_a_bare_loop(template, project, tmp_path):
    [row] = benchmark(template, project, tmp_path / "RESULTS.md", "trivial")
    assert row.startswith("| epoch, CPU, a linear layer, batch 32 | ")
    assert " | ≤ 2 | " in row
