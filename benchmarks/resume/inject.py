"""Runs the tests that inject failures, and writes what each promises and what happened beside the kills.

python benchmarks/resume/inject.py

Every row is a test: it plants the failure in a real run and compares what is left with what was promised.
"""

import re
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

ROOT = Path(__file__).parents[2]
RESULTS = Path(__file__).with_name("RESULTS.md")
HEAD = "## Injected"
TESTS = (
    "packages/training-runs/tests/test_refused_resume.py",
    "packages/training-runs/tests/test_changes.py",
    "packages/training-runs/tests/test_resuming.py",
    "packages/training-runs/tests/test_checkpoint_io.py",
    "packages/training-runs/tests/test_csv.py",
    "packages/training-runs/tests/test_broken_configs.py",
    "packages/training-runs/tests/test_workers.py",
    "packages/training-runs/tests/test_streams.py",
    "packages/training-runs/tests/test_runs.py::test_record_that_was_edited_into_another_kind_is_refused_and_names_the_value",
    "packages/training-runs/tests/test_runs.py::test_directory_that_cannot_be_locked_is_used_and_that_is_said",
    "packages/training-runs/tests/test_full_disk.py",
    "packages/training-runs/tests/test_broken_runs.py",
    "packages/training-runs/tests/test_not_finite.py",
    "packages/training-runs/tests/test_launch.py",
    "tests/project/test_download.py::test_starts_at_once_download_once_and_the_others_wait_and_say_so",
    "tests/test_resume.py::test_ranks_that_are_asked_to_stop_amid_a_long_validation_save_after_it",
    "tests/test_launching.py::test_ranks_end_when_their_supervisor_is_killed_too",
    "tests/test_launching.py::test_a_rank_that_says_nothing_is_named_and_ends_the_job",
)


def row(case: ElementTree.Element) -> str:
    promise, _, injection = case.get("name").partition("[")
    failed = case.find("failure") is not None or case.find("error") is not None
    words = promise.removeprefix("test_").replace("_", " ")
    injected = re.sub(r"\|", r"\\|", injection.removesuffix("]"))
    return f"| {injected} | {words} | {'BROKEN' if failed else 'kept'} |"


def main(tests: list[str]) -> int:
    report = ROOT / ".injected.xml"
    code = subprocess.run([sys.executable, "-m", "pytest", "-q", f"--junitxml={report}", *tests], cwd=ROOT).returncode
    rows = [row(case) for case in ElementTree.parse(report).iter("testcase")]
    report.unlink()
    kept = sum(text.endswith("kept |") for text in rows)
    lines = [
        f"`python benchmarks/resume/inject.py`: {len(rows)} injections, {kept} promises kept.",
        "",
        "| injected | promise | what happened |",
        "| --- | --- | --- |",
        *rows,
    ]
    former = RESULTS.read_text(encoding="utf-8").partition(HEAD)[0].rstrip()
    RESULTS.write_text("\n".join([former, "", HEAD, "", *lines]) + "\n", encoding="utf-8")
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:] or list(TESTS)))
