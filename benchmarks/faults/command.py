"""Commands of a project, each forked from a process that has imported everything heavy."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

sys.path.append(str(Path(__file__).parents[2] / "tests"))

from faulty import forked

LIMIT = 900  # seconds after which a command is stopped

LIVE: set["forked.Process | subprocess.Popen"] = set()


def set_environment(variables: dict[str, str]) -> None:
    """Have all commands run under these environment variables."""
    os.environ |= variables


def train(folder: Path, source: Sequence[str], overrides: list[str]) -> tuple[int | None, float]:
    """Run `python train.py` with `overrides` in a folder; what it says goes to <folder>.txt, outside of it.

    Args:
        source: folders that packages are imported from, relative to `folder` or absolute.

    Returns:
        The exit code, or None where it had to be stopped, and seconds.
    """
    environment = dict(os.environ) | {"PYTHONPATH": os.pathsep.join(str(folder / each) for each in source)}
    output, started = Path(f"{folder}.txt"), time.monotonic()
    process = forked.start(["train.py", *overrides], folder, environment, output, output, sys.executable)
    LIVE.add(process)
    try:
        code = process.wait(LIMIT)
    except subprocess.TimeoutExpired:
        code = None
    end(process)
    LIVE.discard(process)
    return code, round(time.monotonic() - started, 1)


def end_all() -> None:
    for process in list(LIVE):
        end(process)
    forked.end_servers()


def end(process: "forked.Process | subprocess.Popen") -> None:
    """Kill what is left of a command, and of the processes that it started."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):  # all of it has ended, or it has not begun
        process.kill()
    process.wait()
