"""The benchmark of real mistakes; running the checklist on them takes long."""

import re
import subprocess
import sys


def test_every_mistake_and_its_mended_twin_take_a_step(template):
    command = [sys.executable, template / "benchmarks" / "real" / "run.py", "--check"]
    finished = subprocess.run(command, capture_output=True, encoding="utf-8")
    assert finished.returncode == 0, finished.stdout + finished.stderr


def test_the_readme_of_the_checklist_says_what_the_table_counts(template):
    table = (template / "benchmarks" / "real" / "RESULTS.md").read_text()
    readme = " ".join((template / "packages" / "training-checklist" / "README.md").read_text().split())
    counted = re.search(r"(\d+) mistakes: named (\d+), noticed (\d+), missed (\d+)", table)
    alarms = re.search(r"on (\d+) of (\d+) mended twins", table)
    said = re.search(
        r"Of (\d+) mistakes that .*? it names (\d+) with cause and place, notices (\d+) and misses (\d+)", readme
    )
    silent = re.search(r"on (\d+) of the (\d+) mended twins", readme)
    assert (said.groups(), silent.groups()) == (counted.groups(), alarms.groups())
