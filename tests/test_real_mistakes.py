"""The benchmark of real mistakes; running the checklist on them takes long."""

import subprocess
import sys


def test_every_mistake_and_its_mended_twin_take_a_step(template):
    command = [sys.executable, template / "benchmarks" / "real" / "run.py", "--check"]
    finished = subprocess.run(command, capture_output=True, encoding="utf-8")
    assert finished.returncode == 0, finished.stdout + finished.stderr
