"""Commands whose processes are found again whoever their parents are, and ended whatever becomes of the test."""

import json
import os
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from faulty import forked
from faulty.forked import MARK

LIBRARIES = sorted(Path(__file__).parents[2].glob("packages/*/src"))
MINUTES = 8  # more than any command takes; one that hangs fails its test instead of the whole suite

# Smaller than the sample allows, the same on every machine: 14 steps in one process, 7 in each of two.
SMALL = (
    "data=mnist_sample",
    "data.batch_size=250",
    "trainer.accelerator=cpu",
    "trainer.max_epochs=1",
    "callbacks=[checkpoint]",
)


class Finished(NamedTuple):
    """How a command ended: its exit code, and what it wrote to both streams in the order in which it did."""

    code: int
    output: str


class Commands:
    """Runs train.py, eval.py and their like, each in a folder that its outputs go to.

    Args:
        project: a generated project.
        environment: the variables that commands start with.
    """

    def __init__(self, project: Path, environment: dict[str, str]) -> None:
        # A shell's background job ignores Ctrl-C, and so would all that it starts.
        signal.signal(signal.SIGINT, signal.default_int_handler)
        self.project = project
        self.mark = uuid.uuid4().hex
        self.sessions: set[int] = set()
        self.environment = environment | {
            MARK: self.mark,
            "PROJECT": str(project),
            "PYTHONPATH": os.pathsep.join(map(str, (*sources(project), Path(__file__).parents[1]))),
            "PYTHONUNBUFFERED": "1",
        }

    def start(self, folder: Path, *arguments: str | Path, **variables: str) -> subprocess.Popen | forked.Process:
        """Start Python on `arguments` in a process group of its own; what it says goes to <folder>/output."""
        folder.mkdir(parents=True, exist_ok=True)
        output, environment = folder / "output", self.environment | variables
        process = forked.start([*map(str, arguments)], folder, environment, output, output, sys.executable)
        self.sessions.add(process.pid)
        return process

    def run(self, folder: Path, *arguments: str | Path, **variables: str) -> Finished:
        """Run Python on `arguments`; nothing that it started may outlive it."""
        process = self.start(folder, *arguments, **variables)
        code = process.wait(60 * MINUTES)
        self.wait_until_gone(15)
        return Finished(code, (folder / "output").read_text(encoding="utf-8"))

    def train(self, folder: Path, *arguments: str, **variables: str) -> Finished:
        """Run the project's train.py on the small sample; `arguments` go before `SMALL`."""
        return self.run(folder, self.project / "train.py", *with_small(*arguments), **variables)

    def alive(self) -> list[int]:
        """Return the process ids of all commands that live, and of what they have started.

        The variables of a fork are not in its `environ`, but it is in the session of its command.
        """
        ours = []
        for environ in Path("/proc").glob("[0-9]*/environ"):
            process = int(environ.parent.name)
            try:
                session, variables = os.getsid(process), environ.read_bytes().split(b"\0")
            except OSError:  # it has ended, or is another user's
                continue
            ended = variables == [b""]  # and not yet waited for
            if not ended and (session in self.sessions or f"{MARK}={self.mark}".encode() in variables):
                ours.append(process)
        return ours

    def wait_until_gone(self, seconds: float) -> None:
        wait_for(lambda: not self.alive(), seconds, "the end of every process of the command")

    def end(self) -> None:
        """Kill what still lives."""
        for process in self.alive():
            try:
                os.kill(process, signal.SIGKILL)
            except ProcessLookupError:
                continue


def sources(project: Path) -> list[Path]:
    """Return the folders that an installation lets import: the project's own, and the libraries."""
    return [project / "src", *LIBRARIES]


def with_small(*arguments: str) -> list[str]:
    """Return `arguments` and whatever of `SMALL` they don't set themselves. A -m must come first."""
    given = {argument.partition("=")[0] for argument in arguments}
    return [*arguments, *(setting for setting in SMALL if setting.partition("=")[0] not in given)]


def wait_for(condition: Callable[[], object], seconds: float, what: str) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"waited {seconds} s for {what}"
        time.sleep(0.1)


def the_sweep(folder: Path) -> Path:
    """Return the only directory that a multirun in `folder` has made."""
    assert not (folder / "outputs").exists()
    [sweep] = folder.glob("multirun/*/*/*")
    return sweep


def read_json(path: Path):
    return json.loads(path.read_text(encoding="utf-8"))


def jobs_of(sweep: Path) -> list[str]:
    """Return the names of the jobs' directories."""
    return sorted(path.name for path in sweep.iterdir() if path.is_dir() and path.name.isdigit())
