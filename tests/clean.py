"""What every generated project is, whatever was answered."""

import compileall
import subprocess
import sys
from pathlib import Path

from faulty.commands import sources


def assert_clean(project: Path) -> None:
    """Lints, is formatted and compiles."""
    ruff = [sys.executable, "-m", "ruff"]
    for command in ([*ruff, "check", "--no-cache"], [*ruff, "format", "--no-cache", "--diff"]):
        finished = subprocess.run(command, cwd=project, capture_output=True, encoding="utf-8")
        assert finished.returncode == 0, finished.stdout
    assert compileall.compile_dir(project, quiet=1)


def assert_typed(project: Path, *folders: Path) -> None:
    """Passes the type checker with its own settings, or some folders of it do."""
    command = [sys.executable, "-m", "pyrefly", "check", "--python-interpreter-path", sys.executable]
    command += [
        f"--search-path={project}",
        *(f"--search-path={source}" for source in sources(project)),
        *map(str, folders),
    ]
    finished = subprocess.run(command, cwd=project, capture_output=True, encoding="utf-8")
    assert finished.returncode == 0, finished.stdout + finished.stderr
