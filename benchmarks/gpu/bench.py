"""What the parts share: commands with a limit, their logs, and the rows of the table."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

HERE = Path(__file__).parent
TEMPLATE = HERE.parents[1]
SPEED, FAULTS = HERE.with_name("speed"), HERE.with_name("faults")
KEPT = 6000  # characters of a command's output in the evidence: how it ended

T = TypeVar("T")


@dataclass
class Row:
    """A line of the table.

    Attributes:
        verdict: met, missed or failed; "" where there is nothing to judge.
        stand_in: why it says nothing about a GPU, "" where it does.
    """

    what: str
    value: str
    target: str = ""
    verdict: str = ""
    remark: str = ""
    stand_in: str = ""

    def text(self) -> str:
        verdict = f"**{self.verdict}**" if self.verdict in ("missed", "failed") else self.verdict
        if self.stand_in:
            verdict = f"cpu stand-in: {self.verdict or 'told'}"
        remark = "; ".join(filter(None, (self.remark, self.stand_in)))
        cells = (self.what, self.value, self.target, verdict, remark)
        return f"| {' | '.join(cell.replace('|', '/').replace(chr(10), ' ') for cell in cells)} |"


def judged(what: str, ok: bool, value: str = "", target: str = "", remark: str = "") -> Row:
    return Row(what, value, target, "met" if ok else "missed", remark)


@dataclass
class Finished:
    """A command that has ended; its code is None where it was stopped at its limit."""

    command: str
    code: int | None
    output: str
    seconds: float

    @property
    def ok(self) -> bool:
        return self.code == 0

    @property
    def last(self) -> str:
        """The last line that says something, for the table."""
        if self.code is None:
            return f"stopped after {self.seconds:.0f} s"
        lines = [line.strip() for line in self.output.splitlines() if line.strip(" │╭╮╰╯─┃━")]
        lines = [line for line in lines if "HYDRA_FULL_ERROR" not in line]
        return lines[-1][:160] if lines else "no output"


class Broken(Exception):
    """A command that had to work has not; the part it belongs to is a failed row."""


class TimeUp(Exception):
    """The time of this call is over; what was not finished is for the next one."""


@dataclass
class Bench:
    """Where things lie, how long there is, and on what device.

    Attributes:
        device: cuda, or cpu for a rehearsal.
        project: the generated project.
        work: for runs and copies; thrown away.
        evidence: for what is kept.
        end: when this call must be over, by time.monotonic.
        part_end: when the part must be.
        jobs: commands at a time, where nothing is timed.
    """

    device: str
    project: Path
    work: Path
    evidence: Path
    end: float
    jobs: int
    part: str = ""
    part_end: float = 0.0
    lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def on_gpu(self) -> bool:
        return self.device == "cuda"

    @property
    def accelerator(self) -> str:
        return "gpu" if self.on_gpu else "cpu"

    def environment(self, project: Path) -> dict[str, str]:
        own = [project / "src", *sorted(TEMPLATE.glob("packages/*/src")), HERE, SPEED]
        paths = [*map(str, own), *filter(None, [os.environ.get("PYTHONPATH")])]
        return dict(os.environ) | {"PYTHONPATH": os.pathsep.join(paths), "COLUMNS": "160", "PYTHONUTF8": "1"}

    def python(self, *words: object, project: Path | None = None, hidden: bool = False, must: bool = True) -> Finished:
        """Run a command of this Python in a project.

        Args:
            project: a changed copy; the generated one by default.
            hidden: whether it sees no GPU.
            must: whether to stop the part where it fails.

        Raises:
            Broken: it failed, or took longer than the part may.
            TimeUp: it took longer than this call may.
        """
        project = project or self.project
        environment = self.environment(project) | ({"CUDA_VISIBLE_DEVICES": ""} if hidden else {})
        command = [sys.executable, *map(str, words)]
        seconds = min(self.part_end, self.end) - time.monotonic()
        if seconds < 1:
            raise TimeUp if self.end <= self.part_end else Broken(f"{shown(command)}: no time left for it")
        finished = run(command, project, environment, seconds)
        finished.command = finished.command.replace(f"{self.work}/", "")
        self.log(finished)
        if finished.code is None and self.end <= self.part_end:
            raise TimeUp
        if must and not finished.ok:
            raise Broken(f"{finished.command}: {finished.last}")
        return finished

    def train(self, folder: str, *overrides: str, project: Path | None = None, must: bool = True) -> Finished:
        """Run train.py with the bundled sample in a directory of its own."""
        always = ["data=mnist_sample", f"hydra.run.dir={self.run(folder)}", "figures=false"]
        return self.python("train.py", *always, *overrides, project=project, must=must)

    def run(self, folder: str) -> Path:
        return self.work / "runs" / self.part.replace(" ", "-") / folder

    def log(self, finished: Finished) -> None:
        path = self.evidence / "logs" / f"{self.part.replace(' ', '-')}.txt"
        with self.lock:
            path.parent.mkdir(parents=True, exist_ok=True)
            with path.open("a", encoding="utf-8") as file:
                output = finished.output[-KEPT:]
                file.write(f"$ {finished.command}\n{output}\n[{finished.code}, {finished.seconds:.1f} s]\n\n")

    def keep(self, path: Path, name: str) -> None:
        """Copy a small text file to the evidence."""
        target = self.evidence / "files" / f"{self.part.replace(' ', '-')}-{name}"
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(path.read_text(encoding="utf-8"), encoding="utf-8")

    def each(self, function: Any, values: Sequence[T]) -> list[Any]:
        """Call a function with each value, several at a time, and return what it gave in their order."""
        with ThreadPoolExecutor(self.jobs) as pool:
            return list(pool.map(function, values))


def run(command: list[str], folder: Path, environment: dict[str, str], seconds: float) -> Finished:
    """Run a command, and end it and all that it has started after `seconds`."""
    started = time.monotonic()
    process = subprocess.Popen(
        command,
        cwd=folder,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
        encoding="utf-8",
        errors="replace",
    )
    try:
        output, _ = process.communicate(timeout=seconds)
        code: int | None = process.returncode
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        output, _ = process.communicate()
        code = None
    return Finished(shown(command), code, output, time.monotonic() - started)


def shown(command: list[str]) -> str:
    return " ".join(["python", *(Path(word).name if word.startswith("/") else word for word in command[1:])])


def record(run: Path) -> dict[str, Any]:
    return json.loads((run / "run.json").read_text(encoding="utf-8"))


def verdicts(run: Path) -> dict[str, dict[str, Any]]:
    """Return what each debug item said in a run, by item; {} where there is no report."""
    path = run / "debug" / "report.json"
    if not path.is_file():
        return {}
    return {item["item"]: item for item in json.loads(path.read_text(encoding="utf-8"))["items"]}
