"""Harms runs while they live and while they lie, resumes each, and compares it with one that nobody harmed.

python benchmarks/resume/harm.py [WORD ...]

A command that is harmed comes to its end all the same, or ends with a word and an exit code that is not 0; no process
outlives it, and the run goes on to the same weights, metrics and best checkpoint, bit for bit, when the harm is undone.
With words, rows that have one of them are tried again and the others stay in HARM.md as they are; with --missing, those
that are not there yet. Needs Linux; rows that mount a disk or change the user need root too.
"""

import json
import os
import pty
import resource
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import count
from pathlib import Path

import torch

ROOT = Path(__file__).parents[2]
RESULTS = Path(__file__).with_name("HARM.md")
sys.path.insert(0, str(ROOT / "tests"))

from faulty import forked  # noqa: E402
from faulty.commands import Commands, wait_for  # noqa: E402
from kill import weights  # noqa: E402
from row_table import cell, chosen, known, table_line  # noqa: E402

SECONDS = 180  # twenty times as long as the slowest row takes on two cores
# Twelve epochs of 14 steps, of two ranks 7, with a checkpoint after every step.
RUN = (
    *("data=mnist_sample", "data.batch_size=250", "model=mlp", "trainer.accelerator=cpu", "trainer.max_epochs=12"),
    *("callbacks=[checkpoint]", "callbacks.last_checkpoint.every_n_train_steps=1", "logger=csv"),
)
PLACE = "outputs/run"
VARIANTS = {"plain": (), "workers": ("data.num_workers=2",), "ranks": ("trainer=ddp",)}
NOBODY = 65534
AS_NOBODY = f"setpriv --reuid={NOBODY} --regid={NOBODY} --clear-groups "


class Broken(Exception):
    """A promise that was not kept."""


@dataclass
class Outcome:
    """What a run has come to."""

    weights: dict[str, torch.Tensor]
    best: dict[str, torch.Tensor]
    rows: str
    metrics: dict[str, float]


class Run:
    """A run in a folder of its own.

    Args:
        commands: of the generated project.
        folder: empty.
        variant: of `VARIANTS`.
    """

    def __init__(self, commands: Commands, folder: Path, variant: str) -> None:
        self.commands, self.folder, self.variant = commands, folder, variant
        self.place = folder / PLACE
        folder.mkdir(parents=True)
        self.process: subprocess.Popen | forked.Process | None = None

    def start(self, *arguments: str, shell: str = "COMMAND", script: str = "train.py", **variables: str) -> None:
        """Start a script of the project: training, where no arguments are given."""
        given = arguments or (*RUN, *VARIANTS[self.variant], f"hydra.run.dir={PLACE}")
        command = [str(self.commands.project / script), *given]
        if shell == "COMMAND" and not variables:
            self.process = self.commands.start(self.folder, *command)
            return
        words = shell.replace("COMMAND", "exec " * (shell == "COMMAND") + shlex.join([sys.executable, *command]))
        with (self.folder / "output").open("wb") as output:
            self.process = subprocess.Popen(
                ["bash", "-c", words],
                cwd=self.folder,
                env=self.commands.environment | variables,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
        self.commands.sessions.add(self.process.pid)

    def amid(self, epochs: int = 1) -> None:
        """Wait until so many epochs are on record."""
        table, best = self.place / "csv" / "metrics.csv", self.place / "checkpoints" / "best.ckpt"
        wait_for(
            lambda: (
                self.process.poll() is not None
                or (best.is_file() and table.is_file() and table.read_text().count("\n") > epochs)
            ),
            SECONDS,
            "training to begin",
        )
        if self.process.poll() is not None:
            raise Broken(f"ended before it was harmed: {self.said[-500:]}")

    def end(self, *expected: int, words: str = "", traceback: bool = False) -> int:
        """Wait for the end; return the exit code.

        Args:
            expected: exit codes that are good ones; any where none is named, 0 only where the run is finished.
            words: that it is to say.
            traceback: whether one may be shown.
        """
        try:
            code = self.process.wait(SECONDS)
        except subprocess.TimeoutExpired:
            raise Broken(f"hangs: {self.last}") from None
        try:
            self.commands.wait_until_gone(20)
        except AssertionError:
            raise Broken(f"left processes behind: {len(self.commands.alive())}") from None
        explained = " next  " in self.said  # a panel with the cause, and what to do
        if "Traceback" in self.said and not traceback and not explained:
            raise Broken(f"a traceback: {self.last}")
        if expected and code not in expected:
            raise Broken(f"exit code {code}: {self.last}")
        if words not in self.said:
            raise Broken(f"does not say {words!r}: {self.last}")
        if 0 < code < 128 and not self.last:
            raise Broken(f"exit code {code} without a word")
        return code

    @property
    def said(self) -> str:
        return (self.folder / "output").read_text(encoding="utf-8", errors="replace")

    @property
    def last(self) -> str:
        """The last line that it said, of those that say what is wrong."""
        lines = [line.strip() for line in self.said.splitlines() if line.strip(" ─")]
        why = [line for line in lines if line.startswith("why ")]  # of a panel
        if why:
            return f"a panel: {' '.join(why[-1].split()[1:])} ..."
        return (lines or [""])[-1].replace(str(self.folder), "").replace("/outputs", "outputs")

    def killed(self) -> "Run":
        """Train, and be killed amid it."""
        self.start()
        self.amid()
        self.kill()
        return self

    def kill(self) -> None:
        os.kill(self.process.pid, signal.SIGKILL)
        self.end(-signal.SIGKILL)

    def resume(self, *arguments: str, **options: str) -> None:
        self.start(f"resume={PLACE}", *arguments, **options)

    def goes_on(self, rows: bool = True) -> None:
        """Resume it, and compare what it comes to with what it would have come to."""
        self.resume()
        self.end(0)
        self.is_whole(rows)

    def is_whole(self, rows: bool = True) -> None:
        ours, theirs = outcome(self.place), WHOLE[self.variant]
        for name in ("weights", "best"):
            these, those = getattr(ours, name), getattr(theirs, name)
            if these.keys() != those.keys() or not all(torch.equal(these[key], those[key]) for key in those):
                raise Broken(f"{name} DIFFER")
        if ours.metrics != theirs.metrics:
            raise Broken("metrics DIFFER")
        if rows and ours.rows != theirs.rows:
            raise Broken("metrics.csv DIFFERS")
        left = [path.name for path in self.place.rglob(".*") if path.is_file()]
        if left:
            raise Broken(f"left behind: {', '.join(left)}")

    def content(self) -> dict[str, bytes]:
        files = [path for path in self.place.rglob("*") if path.is_file() and not path.name.startswith(".")]
        return {str(path.relative_to(self.place)): path.read_bytes() for path in files}

    def is_refused(self, words: str, *arguments: str, **options: str) -> None:
        """Refused in one line, without a byte changed."""
        before = self.content()
        self.resume(*arguments, **options)
        self.end(1, words=words)
        if self.content() != before:
            raise Broken(f"refused, and changed: {self.last}")

    def children(self, words: str = "") -> list[int]:
        """Return the process ids of what the command has started, directly or not."""
        return [each for each in self.commands.alive() if each != self.process.pid and words in command_of(each)]


def command_of(process: int) -> str:
    try:
        return Path(f"/proc/{process}/cmdline").read_text(encoding="utf-8").replace("\0", " ")
    except OSError:
        return ""


def parent_of(process: int) -> int:
    return int(Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[1])


def outcome(place: Path) -> Outcome:
    record = json.loads((place / "run.json").read_text(encoding="utf-8"))
    if record["state"] != "finished":
        raise Broken(f"the record says {record['state']}")
    best = torch.load(place / "checkpoints" / "best.ckpt", weights_only=True)["state_dict"]
    rows = (place / "csv" / "metrics.csv").read_text(encoding="utf-8")
    return Outcome(weights(place / "checkpoints" / "last.ckpt"), best, rows, record["metrics"])


WHOLE: dict[str, Outcome] = {}
Harm = Callable[[Run], str | None]
ROWS: dict[str, tuple[str, Harm]] = {}


def row(what: str, variant: str = "plain") -> Callable[[Harm], Harm]:
    def add(harm: Harm) -> Harm:
        assert what not in ROWS, what
        ROWS[what] = variant, harm
        return harm

    return add


def need_root() -> None:
    if os.geteuid() != 0:
        raise PermissionError("needs root")


# Signals


def signalled(what: str, numbers: list[int], *expected: int, pause: float = 0, variant: str = "plain") -> None:
    """Add a row in which a command is sent signals amid training."""

    def harm(run: Run) -> str:
        run.start()
        run.amid()
        for number in numbers:
            os.kill(run.process.pid, number)
            time.sleep(pause)
        code = run.end(*expected)
        if code == 0:
            run.is_whole()
            return "comes to its end"
        run.goes_on()
        return f"exit code {code}"

    row(what, variant)(harm)


signalled("stopped for two seconds (SIGSTOP, SIGCONT)", [signal.SIGSTOP, signal.SIGCONT], 0, pause=2)
signalled("SIGHUP: the terminal's end", [signal.SIGHUP], 128 + signal.SIGHUP)
signalled("SIGQUIT: Ctrl-backslash", [signal.SIGQUIT], -signal.SIGQUIT)
signalled("SIGUSR1, which schedulers send", [signal.SIGUSR1], -signal.SIGUSR1)
signalled("SIGSEGV: a library that crashes", [signal.SIGSEGV], -signal.SIGSEGV)
signalled("SIGABRT: a library that gives up", [signal.SIGABRT], -signal.SIGABRT)
signalled("SIGTERM and at once SIGKILL", [signal.SIGTERM, signal.SIGKILL], -signal.SIGKILL)
signalled("SIGINT and at once SIGTERM", [signal.SIGINT, signal.SIGTERM], 130, 143)
signalled("SIGTERM to a process that is stopped, then SIGCONT", [signal.SIGSTOP, signal.SIGTERM, signal.SIGCONT], 143)
signalled("SIGHUP to a command of two ranks", [signal.SIGHUP], 128 + signal.SIGHUP, variant="ranks")
signalled("SIGKILL of a command with loader workers", [signal.SIGKILL], -signal.SIGKILL, variant="workers")


@row("the terminal is gone")
def terminal(run: Run) -> str:
    ours, theirs = pty.openpty()
    command = [sys.executable, str(run.commands.project / "train.py"), *RUN, f"hydra.run.dir={PLACE}"]
    (run.folder / "output").touch()
    run.process = subprocess.Popen(
        ["setsid", "--ctty", "--wait", *command],
        cwd=run.folder,
        env=run.commands.environment,
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        start_new_session=True,
    )
    os.close(theirs)
    os.set_blocking(ours, False)
    table = run.place / "csv" / "metrics.csv"

    def begun() -> bool:
        with suppress(BlockingIOError):
            os.read(ours, 65536)
        return table.is_file() and table.read_text().count("\n") > 2

    wait_for(begun, SECONDS, "training to begin")
    os.close(ours)
    code = run.end()
    run.goes_on()
    return f"exit code {code}"


@row("nobody reads its output any more")
def reader(run: Run) -> str:
    run.start(shell="COMMAND callbacks=[checkpoint,epoch_lines] | head -3 >/dev/null; exit ${PIPESTATUS[0]}")
    run.end(0)
    run.is_whole()
    return "comes to its end"


@row("SIGINT while it imports, ten times")
def interrupted_early(run: Run) -> str:
    for number in range(10):
        run.start(MARKED="1")  # no fork, which has imported
        time.sleep(0.4 * number)
        os.kill(run.process.pid, signal.SIGINT)
        # Until this project's first line Python itself answers, with its own traceback.
        run.end(130, -signal.SIGINT, 1, traceback=number < 2)
        shutil.rmtree(run.place, ignore_errors=True)
    return "exit code 130"


@row("SIGTERM while it imports, ten times")
def stopped_early(run: Run) -> str:
    for number in range(10):
        run.start(MARKED="1")
        time.sleep(0.4 * number)
        os.kill(run.process.pid, signal.SIGTERM)
        run.end(143, -signal.SIGTERM)
        shutil.rmtree(run.place, ignore_errors=True)
    return "exit code 143"


@row("SIGKILL before there is a checkpoint")
def killed_early(run: Run) -> str:
    run.start()
    wait_for((run.place / "run.json").is_file, SECONDS, "a record")
    run.kill()
    run.goes_on()
    return "killed"


@row("SIGKILL after training, while it tests")
def killed_late(run: Run) -> str:
    run.start()
    record = run.place / "run.json"
    wait_for(lambda: record.is_file() and '"epochs"' in record.read_text(), SECONDS, "the end of training")
    run.kill()
    run.goes_on()
    return "killed"


# Limits of the system


def limited(what: str, limit: int, value: Callable[[Run], int], words: str = "", variant: str = "plain") -> None:
    """Add a row in which a limit is set amid training."""

    def harm(run: Run) -> str:
        run.start()
        run.amid()
        _, hard = resource.prlimit(run.process.pid, limit)
        resource.prlimit(run.process.pid, limit, (value(run), hard))
        code = run.end(words=words)
        if code == 0:
            run.is_whole()
            return "comes to its end"
        said = run.last
        run.goes_on()
        return said if code > 0 else f"exit code {code}"

    row(what, variant)(harm)


limited("no further file may be opened (ulimit -n)", resource.RLIMIT_NOFILE, lambda run: 3)
limited("no file may be larger than 1,000 bytes (ulimit -f)", resource.RLIMIT_FSIZE, lambda run: 1000)
limited("its time on the CPU is up (ulimit -t)", resource.RLIMIT_CPU, lambda run: 1)
limited("its memory is up (ulimit -v)", resource.RLIMIT_AS, lambda run: 1 << 20)
limited("no further file, with loader workers", resource.RLIMIT_NOFILE, lambda run: 8, variant="workers")


def started_under(what: str, shell: str, variant: str = "plain") -> None:
    """Add a row in which a command is started under a limit."""

    def harm(run: Run) -> str:
        run.start(shell=shell)
        code = run.end()
        if code == 0:
            run.is_whole()
            return "comes to its end"
        said = run.last
        shutil.rmtree(run.place, ignore_errors=True)
        return said

    row(what, variant)(harm)


started_under("2 GB of addresses (ulimit -v)", "ulimit -v 2000000; COMMAND")
started_under("4 GB of addresses and two ranks (ulimit -v)", "ulimit -v 4000000; COMMAND", "ranks")
started_under("a stack of 256 KiB (ulimit -s)", "ulimit -s 256; COMMAND")
started_under("32 open files and loader workers", "ulimit -n 32; COMMAND", "workers")
started_under("48 open files and two ranks", "ulimit -n 48; COMMAND", "ranks")
started_under("nothing may be written (ulimit -f 0)", "(ulimit -f 0; COMMAND 2>&1) | cat; exit ${PIPESTATUS[0]}")


# Loader workers and ranks


def worker_harmed(what: str, numbers: list[int], pause: float = 0) -> None:
    """Add a row in which a loader worker is sent signals."""

    def harm(run: Run) -> str:
        run.start()
        run.amid()
        workers = [each for each in run.children() if parent_of(each) == run.process.pid]
        for number in numbers:
            os.kill(workers[0], number)
            time.sleep(pause)
        code = run.end()
        if code == 0:
            run.is_whole()
            return "comes to its end"
        said = run.last
        run.goes_on()
        return said

    row(what, "workers")(harm)


worker_harmed("a loader worker is killed", [signal.SIGKILL])
worker_harmed("a loader worker crashes (SIGSEGV)", [signal.SIGSEGV])
worker_harmed("a loader worker is stopped for two seconds", [signal.SIGSTOP, signal.SIGCONT], pause=2)
worker_harmed("a loader worker gets SIGTERM", [signal.SIGTERM])


def ranks_of(run: Run) -> list[int]:
    """Return the process ids of the ranks, in their order."""
    found = {}
    for process in run.children("train.py"):
        variables = dict(each.partition("=")[::2] for each in environment_of(process))
        if "RANK" in variables and parent_of(process) == supervisor_of(run):
            found[int(variables["RANK"])] = process
    return [found[each] for each in sorted(found)]


def environment_of(process: int) -> list[str]:
    return Path(f"/proc/{process}/environ").read_text(encoding="utf-8").split("\0")


def supervisor_of(run: Run) -> int:
    return next(each for each in run.children("training_runs.launching.supervise"))


def rank_harmed(what: str, choose: Callable[[Run], int], numbers: list[int], words: str = "", pause: float = 0) -> None:
    """Add a row in which a process of a job of two ranks is sent signals."""

    def harm(run: Run) -> str:
        run.start()
        run.amid()
        process = choose(run)
        for number in numbers:
            os.kill(process, number)
            time.sleep(pause)
        # What the other rank says of its peer's end is its own.
        code = run.end(words=words, traceback=True)
        if code == 0:
            run.is_whole()
            return "comes to its end"
        said = next((line for line in run.said.splitlines() if words and words in line), run.last)
        run.goes_on()
        return said

    row(what, "ranks")(harm)


rank_harmed("rank 1 is killed", lambda run: ranks_of(run)[1], [signal.SIGKILL], "rank 1 of 2 was ended by SIGKILL")
rank_harmed("rank 0 is killed", lambda run: ranks_of(run)[0], [signal.SIGKILL], "rank 0 of 2 was ended by SIGKILL")
rank_harmed("rank 1 crashes (SIGSEGV)", lambda run: ranks_of(run)[1], [signal.SIGSEGV], "rank 1 of 2 was ended by SIGS")
rank_harmed("rank 0 is stopped for two seconds", lambda run: ranks_of(run)[0], [signal.SIGSTOP, signal.SIGCONT], "", 2)
rank_harmed("the process that watches the ranks is killed", supervisor_of, [signal.SIGKILL], "was ended by SIGKILL")
rank_harmed("the process that watches the ranks gets SIGTERM", supervisor_of, [signal.SIGTERM])
rank_harmed("rank 1 alone gets SIGTERM", lambda run: ranks_of(run)[1], [signal.SIGTERM])


@row("a command of two ranks is killed", "ranks")
def parent_killed(run: Run) -> str:
    run.killed()
    run.goes_on()
    return "exit code -9"


@row("the process that watches the ranks is stopped and its command killed", "ranks")
def watcher_stopped(run: Run) -> str:
    run.start()
    run.amid()
    watcher = supervisor_of(run)
    os.kill(watcher, signal.SIGSTOP)
    os.kill(run.process.pid, signal.SIGKILL)
    run.process.wait()
    os.kill(watcher, signal.SIGCONT)
    run.end(-signal.SIGKILL)
    run.goes_on()
    return "exit code -9"


@row("eval.py, rerun= and four times resume= of a run that trains")
def used_meanwhile(run: Run) -> str:
    run.start()
    run.amid()
    others = []
    for number, arguments in enumerate([[f"resume={PLACE}"]] * 4 + [[f"rerun={PLACE}", "hydra.run.dir=outputs/again"]]):
        other = Run(run.commands, run.folder / f"other{number}", run.variant)
        (other.folder / "outputs").symlink_to(run.folder / "outputs")
        other.start(*arguments)
        others.append(other)
    for other in others[:4]:
        if other.process.wait(SECONDS) != 1 or "is still running" not in other.said:
            raise Broken(f"resumed a run that trains: {other.last}")
    said = others[0].last
    if others[4].process.wait(SECONDS) != 0:
        raise Broken(f"rerun= of a run that trains: {others[4].last}")
    run.end(0)
    run.is_whole()
    return said


# Disks


@contextmanager
def disk(run: Run, options: str) -> Iterator[Path]:
    """Mount a disk of its own where the run lies."""
    need_root()
    place = run.folder / "outputs"
    place.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", place], check=True)
    try:
        yield place
    finally:
        subprocess.run(["umount", "--lazy", place], check=False)


def on_disk(
    what: str,
    harm: Callable[[Path], object],
    undo: Callable[[Path], object],
    options: str = "size=200m",
    variant: str = "plain",
) -> None:
    """Add a row in which something happens to the disk that a run lies on."""

    def harmed(run: Run) -> str:
        with disk(run, options) as place:
            run.start()
            run.amid()
            harm(place)
            code = run.end(1, traceback=variant == "ranks")
            said = run.last
            undo(place)
            run.goes_on()
            assert code == 1
            return said

    row(what, variant)(harmed)


def fill(place: Path) -> None:
    with (place / "filler").open("wb", buffering=0) as file:
        try:
            while True:
                file.write(bytes(1 << 16))
        except OSError:
            pass


def fill_with_names(place: Path) -> None:
    (place / "filler").mkdir()
    try:
        for number in count():
            (place / "filler" / str(number)).touch()
    except OSError:
        pass


def remove_filler(place: Path) -> None:
    filler = place / "filler"
    shutil.rmtree(filler) if filler.is_dir() else filler.unlink()


def remount(how: str) -> Callable[[Path], None]:
    return lambda place: subprocess.run(["mount", "-o", f"remount,{how}", place], check=True) and None


on_disk("the disk is full", fill, remove_filler)
on_disk("the disk is full, with two ranks", fill, remove_filler, variant="ranks")
on_disk("the disk has no room for further files (inodes)", fill_with_names, remove_filler, "size=200m,nr_inodes=400")


@row("the disk becomes read-only")
def read_only(run: Run) -> str:
    need_root()
    with disk(run, "size=200m") as place:
        run.start()
        run.amid()
        # Over it, because a disk stays as it is while a file is open for writing.
        subprocess.run(["mount", "--bind", place, place], check=True)
        subprocess.run(["mount", "-o", "remount,ro,bind", place], check=True)
        run.end(1)
        said = run.last
        subprocess.run(["umount", "--lazy", place], check=True)
        run.goes_on()
        return said


@row("the disk is not there any more (umount -l), and comes back")
def unmounted(run: Run) -> str:
    need_root()
    backing = run.folder / "backing"
    backing.mkdir()
    place = run.folder / "outputs"
    place.mkdir()
    subprocess.run(["mount", "--bind", backing, place], check=True)
    try:
        run.start()
        run.amid()
    finally:
        subprocess.run(["umount", "--lazy", place], check=True)
    run.end(1)
    said = run.last
    shutil.rmtree(place)
    place.symlink_to(backing)
    run.goes_on()
    return said


@row("a disk without room from the start")
def full_before(run: Run) -> str:
    with disk(run, "size=64k") as place:
        fill(place)
        run.start()
        run.end(1)
        said = run.last
        remove_filler(place)
        remount("size=200m")(place)
        shutil.rmtree(run.place, ignore_errors=True)
        run.start()
        run.end(0)
        run.is_whole()
        return said


@row("a full disk for temporary files, and two ranks", "ranks")
def full_temporary(run: Run) -> str:
    with disk(run, "size=64k") as place:
        fill(place)
        temporary = run.folder / "temporary"
        temporary.symlink_to(place)
        run.start(*RUN, "trainer=ddp", "hydra.run.dir=run", TMPDIR=str(temporary))
        return run.last if run.end() else "comes to its end"


# What lies in the run's directory, amid training


def replaced(
    what: str,
    harm: Callable[[Run], object],
    undo: Callable[[Run], object] = lambda run: None,
    words: str = "",
    variant: str = "plain",
    rows: bool = True,
) -> None:
    """Add a row in which something in the run's directory is changed amid training."""

    def harmed(run: Run) -> str:
        run.start()
        run.amid()
        harm(run)
        code = run.end(words=words, traceback=variant == "ranks")
        if code == 0:
            run.is_whole(rows)
            return "comes to its end"
        said = run.last
        undo(run)
        run.goes_on(rows)
        return said

    row(what, variant)(harmed)


def keep(run: Run) -> None:
    """Keep a copy that can be put back; of a moment at which nothing is being written."""
    copy = run.folder / "kept"
    os.kill(run.process.pid, signal.SIGSTOP)
    shutil.copytree(run.place, copy, ignore=shutil.ignore_patterns(".l*", ".re*"))
    os.kill(run.process.pid, signal.SIGCONT)


def put_back(run: Run) -> None:
    if run.place.is_symlink() or run.place.is_file():
        run.place.unlink()
    shutil.rmtree(run.place, ignore_errors=True)
    shutil.copytree(run.folder / "kept", run.place)


def file_for_folder(run: Run) -> None:
    keep(run)
    # Again and again: a checkpoint may be made in between.
    wait_for(lambda: turn_into_file(run.place / "checkpoints"), 10, "the change")


def turn_into_file(folder: Path) -> bool:
    shutil.rmtree(folder, ignore_errors=True)
    try:
        folder.touch(exist_ok=False)
    except FileExistsError:
        return False
    return True


def moved_and_linked(run: Run) -> None:
    run.place.rename(run.folder / "elsewhere")
    run.place.symlink_to(run.folder / "elsewhere")


def exchanged(run: Run) -> None:
    """The run's directory goes, and one of the same name is there."""
    keep(run)
    run.place.rename(run.folder / "old")
    run.place.mkdir()


def folder_for_file(name: str) -> Callable[[Run], None]:
    def harm(run: Run) -> None:
        keep(run)
        path = run.place / name
        draft = path.with_name("draft")
        (draft / "x").mkdir(parents=True)
        while True:  # a file may come again in between
            path.unlink(missing_ok=True)
            try:
                draft.rename(path)
                return
            except OSError:
                continue

    return harm


replaced("checkpoints/ is removed", lambda run: (keep(run), remove(run.place / "checkpoints")), put_back)
replaced("checkpoints/ becomes a file", file_for_folder, put_back)
replaced("last.ckpt becomes a folder", folder_for_file("checkpoints/last.ckpt"), put_back)
replaced("run.json becomes a folder", folder_for_file("run.json"), put_back)
replaced("metrics.csv becomes a folder", folder_for_file("csv/metrics.csv"), put_back)
replaced("last.ckpt becomes a link that leads nowhere", lambda run: linked(run.place / "checkpoints/last.ckpt"))
replaced("run.json is removed", lambda run: (run.place / "run.json").unlink())
replaced("run.json is cut short", lambda run: os.truncate(run.place / "run.json", 100), put_back)
replaced("metrics.csv is removed", lambda run: (run.place / "csv/metrics.csv").unlink(), rows=False)
replaced("best.ckpt is removed", lambda run: (keep(run), (run.place / "checkpoints/best.ckpt").unlink()), put_back)
replaced("its directory is removed", lambda run: (keep(run), remove(run.place)), put_back, "is gone")
replaced(
    "its directory is moved",
    lambda run: run.place.rename(run.folder / "x"),
    lambda run: (run.folder / "x").rename(run.place),
    "is gone",
)
replaced("its directory is moved, and a link left", moved_and_linked)
replaced("another directory lies in its place", exchanged, put_back)
replaced(
    "its directory is removed, with two ranks",
    lambda run: (keep(run), remove(run.place)),
    put_back,
    "is gone",
    "ranks",
)
replaced(
    "its directory becomes read-only for all (chattr +i)",
    lambda run: immutable(run, "+"),
    lambda run: immutable(run, "-"),
)
replaced(
    "last.ckpt cannot be changed (chattr +i)",
    lambda run: immutable(run, "+", "checkpoints/last.ckpt"),
    lambda run: immutable(run, "-", "checkpoints/last.ckpt"),
)


def remove(folder: Path) -> None:
    """Remove a folder in which files are being written."""
    folder.rename(folder.with_name("removed"))
    shutil.rmtree(folder.with_name("removed"))


def linked(path: Path) -> None:
    path.unlink()
    path.symlink_to("/nowhere/at/all")


def immutable(run: Run, how: str, name: str = ".") -> None:
    need_root()
    while subprocess.run(["chattr", f"{how}i", run.place / name], stderr=subprocess.DEVNULL).returncode != 0:
        time.sleep(0.01)  # it is just being replaced


# What lies there, between a kill and the resume


def lying(
    what: str, harm: Callable[[Run], object], refused: str | None = None, undo: Callable[[Run], object] | None = None
) -> None:
    """Add a row in which a killed run's directory is changed before it is resumed."""

    def harmed(run: Run) -> str:
        run.killed()
        shutil.copytree(run.place, run.folder / "kept", ignore=shutil.ignore_patterns(".l*", ".re*"))
        harm(run)
        if refused is None:
            run.goes_on()
            return "goes on"
        run.is_refused(refused)
        said = run.last
        (undo or put_back)(run)
        run.goes_on()
        return said

    row(what)(harmed)


def column(run: Run) -> None:
    path = run.place / "csv/metrics.csv"
    first, *rest = path.read_text().splitlines()
    path.write_text("\n".join([f"{first},mine", *(f"{line},1" for line in rest)]) + "\n")


def zeroed(run: Run) -> None:
    path = run.place / "csv/metrics.csv"
    size = path.stat().st_size
    with path.open("r+b") as file:
        file.truncate(size - 20)
        file.truncate(size + 4096)


def doubled(run: Run) -> None:
    path = run.place / "csv/metrics.csv"
    path.write_text(path.read_text() * 2)


def hole(run: Run) -> None:
    path = run.place / "checkpoints/last.ckpt"
    size = path.stat().st_size
    with path.open("r+b") as file:
        file.seek(size // 2)
        file.write(bytes(4096))


def clocks(seconds: float) -> Callable[[Run], None]:
    def harm(run: Run) -> None:
        for path in [run.place, *run.place.rglob("*")]:
            os.utime(path, (seconds, seconds))

    return harm


def older_of_slurm(run: Run) -> None:
    """What Lightning has saved when SLURM took the job away earlier, and a clock that was ahead then."""
    path = run.place / "hpc_ckpt_1.ckpt"
    shutil.copy(run.place / "checkpoints/best.ckpt", path)
    os.utime(path, (4e9, 4e9))


def of_version(name: str, version: str) -> Callable[[Run], None]:
    def harm(run: Run) -> None:
        path = run.place / "checkpoints" / name
        content = torch.load(path, weights_only=True)
        content["pytorch-lightning_version"] = version
        torch.save(content, path)

    return harm


def recorded(**values: object) -> Callable[[Run], None]:
    def harm(run: Run) -> None:
        path = run.place / "run.json"
        path.write_text(json.dumps(json.loads(path.read_text()) | values))

    return harm


def drafts(run: Run) -> None:
    for name in ("checkpoints/.last.ckpt.draft", ".run.json.4711", ".reserve"):
        (run.place / name).write_bytes(b"half")


lying("metrics.csv has a column more", column)
lying("the end of metrics.csv is zeros, as after a power cut", zeroed)
lying("metrics.csv stands twice in its file", doubled)
lying("last.ckpt has a hole of zeros, as after a power cut", hole, "is damaged")
lying("run.json is empty, as after a power cut", lambda run: os.truncate(run.place / "run.json", 0), "is damaged")
lying("all of its files are of 1970", clocks(0))
lying("all of its files are of 2096", clocks(4e9))
lying("last.ckpt says that a Lightning of the future wrote it", of_version("last.ckpt", "9.9.9"))
lying("last.ckpt says that Lightning 2.0 wrote it", of_version("last.ckpt", "2.0.0"))
lying("run.json of another version has more in it", recorded(schema=9, packages={"torch": "9.9"}, new={"a": [1]}))
lying("drafts of a write that was torn", drafts)
lying(
    ".lock is left, and names a process that is another now",
    lambda run: ((run.place / ".lock").touch(), (run.place / ".lock.holder").write_text("process 1 on here")),
)
lying(
    ".lock.holder is a folder",
    lambda run: (run.place / ".lock.holder").unlink(missing_ok=True) or (run.place / ".lock.holder").mkdir(),
)
lying(".lock is a folder", lambda run: (run.place / ".lock").unlink(missing_ok=True) or (run.place / ".lock").mkdir())
lying(".hydra is removed", lambda run: shutil.rmtree(run.place / ".hydra"), "config.yaml cannot be read")
lying("train.log is removed", lambda run: (run.place / "train.log").unlink())
lying("train.log is a link that leads nowhere", lambda run: linked(run.place / "train.log"), "train.log")
lying("checkpoints/ is a link to another disk", lambda run: other_disk(run))
lying("an earlier checkpoint of SLURM's is newer by its clock", older_of_slurm)


def other_disk(run: Run) -> None:
    place = Path(tempfile.mkdtemp(dir="/dev/shm"))
    run.commands.aside.append(place)
    shutil.move(run.place / "checkpoints", place / "checkpoints")
    (run.place / "checkpoints").symlink_to(place / "checkpoints")


@row("another program holds the lock (flock)")
def locked(run: Run) -> str:
    run.killed()
    holder = subprocess.Popen(["flock", run.place / ".lock", "sleep", "600"], start_new_session=True)
    try:
        time.sleep(0.5)
        run.is_refused("is still running")
        said = run.last
    finally:
        os.killpg(holder.pid, signal.SIGKILL)
        holder.wait()
    run.goes_on()
    return said


@row("a copy by hard links (cp -al) is resumed, then the run")
def hard_links(run: Run) -> str:
    run.killed()
    subprocess.run(["cp", "-al", run.place, run.folder / "outputs/copy"], check=True)
    before = run.content()
    run.start("resume=outputs/copy")
    run.end(0)
    after = run.content()
    # What is written in place: the log, and what Lightning's CSV logger says of the hyperparameters.
    kept = {name: text for name, text in before.items() if name not in ("train.log", "csv/hparams.yaml")}
    changed = [name for name, text in kept.items() if after.get(name) != text]
    if changed:
        raise Broken(f"the copy's end changed the run: {', '.join(changed)}")
    run.goes_on()
    return "goes on"


@row("resumed by a user who may not write there")
def other_user(run: Run) -> str:
    need_root()
    run.killed()
    run.is_refused("", shell=f"{AS_NOBODY}COMMAND", HOME="/nowhere")
    said = run.last
    run.goes_on()
    return said


@row("umask 777, as a user like any other")
def umask(run: Run) -> str:
    need_root()
    os.chown(run.folder, NOBODY, NOBODY)
    run.start(shell=f"umask 777; {AS_NOBODY}COMMAND", HOME="/nowhere")
    run.end(1)
    return run.last


@row("its directory becomes read-only (chmod), as a user like any other")
def chmod(run: Run) -> str:
    need_root()
    os.chown(run.folder, NOBODY, NOBODY)
    run.start(shell=f"{AS_NOBODY}COMMAND", HOME="/nowhere")
    run.amid()
    places = [run.place, *(path for path in run.place.rglob("*") if path.is_dir())]
    for path in places:
        path.chmod(0o555)
    run.end(1)
    said = run.last
    for path in places:
        path.chmod(0o755)
    run.goes_on()
    return said


# Sweeps

SWEEP = ("-m", *RUN[:4], "trainer.max_epochs=3", *RUN[5:], "seed=1,2", "hydra.sweep.dir=outputs/sweep")


def swept(folder: Path) -> list[Outcome]:
    return [outcome(folder / "outputs/sweep" / job) for job in ("0", "1")]


def same(ours: list[Outcome], theirs: list[Outcome]) -> bool:
    return all(
        all(torch.equal(a.weights[key], b.weights[key]) for key in b.weights) and a.rows == b.rows
        for a, b in zip(ours, theirs, strict=True)
    )


def whole_sweep(run: Run) -> list[Outcome]:
    other = Run(run.commands, run.folder / "whole", run.variant)
    other.start(*SWEEP)
    other.end(0)
    return swept(other.folder)


def amid_first_job(run: Run) -> None:
    table = run.folder / "outputs/sweep/0/csv/metrics.csv"
    wait_for(lambda: table.is_file() and table.read_text().count("\n") > 1, SECONDS, "the first job")


@row("two sweeps in one directory at once")
def two_sweeps(run: Run) -> str:
    run.start(*SWEEP)
    other = Run(run.commands, run.folder / "other", run.variant)
    (other.folder / "outputs").symlink_to(run.folder / "outputs")
    other.start(*SWEEP)
    codes = [each.process.wait(SECONDS) for each in (run, other)]
    if "Traceback" in run.said + other.said:
        raise Broken(f"a traceback: {run.last} / {other.last}")
    said = next((each.last for each, code in zip((run, other), codes, strict=True) if code), "both come to their end")
    run.start(*SWEEP)
    run.end(0)
    if not same(swept(run.folder), whole_sweep(run)):
        raise Broken("jobs DIFFER")
    return said


@row("a sweep is killed amid its first job, and started again")
def sweep_killed(run: Run) -> str:
    run.start(*SWEEP)
    amid_first_job(run)
    run.kill()
    run.start(*SWEEP)
    run.end(0)
    if not same(swept(run.folder), whole_sweep(run)):
        raise Broken("jobs DIFFER")
    return "goes on"


@row("a sweep's directory is removed amid its first job")
def sweep_removed(run: Run) -> str:
    run.start(*SWEEP)
    amid_first_job(run)
    shutil.rmtree(run.folder / "outputs/sweep")
    code, said = run.end(), run.last
    run.start(*SWEEP)
    run.end(0)
    if not same(swept(run.folder), whole_sweep(run)):
        raise Broken("jobs DIFFER")
    return said if code else "trains that job again"


# The project itself


@row("the project's configs, code and data are removed while it trains", "workers")
def project_removed(run: Run) -> str:
    project = run.folder / "project"
    shutil.copytree(run.commands.project, project)
    commands = Commands(project, run.commands.environment)
    run.commands, former = commands, run.commands
    run.start(*RUN, *VARIANTS["workers"], f"hydra.run.dir={run.place}")
    run.amid()
    for part in ("conf", "src", "train.py"):  # the sample among it, of which the test is read last
        (project / part).rename(project / f"{part}.away")
    code, said = run.end(), run.last
    for part in ("conf", "src", "train.py"):
        (project / f"{part}.away").rename(project / part)
    run.goes_on() if code else run.is_whole()
    run.commands = former
    return said if code else "comes to its end"


def commands_of(scratch: Path) -> Commands:
    """Generate a project."""
    made = [sys.executable, "-m", "cookiecutter", "--no-input", "--output-dir", scratch / "made", ROOT]
    subprocess.run(made, check=True, capture_output=True, env=os.environ | {"HOME": str(scratch)})
    [project] = (scratch / "made").iterdir()
    for name in ("wheels", "docs", ".git"):
        shutil.rmtree(project / name, ignore_errors=True)
    known = {name: value for name, value in os.environ.items() if not name.startswith(("GIT_", "PYTHON", "PL_"))}
    own = {"PYTHONUTF8": "1", "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""}
    nowhere = {name: "http://127.0.0.1:9" for name in ("http_proxy", "https_proxy")}
    commands = Commands(project, known | own | nowhere)
    commands.aside = []
    return commands


def tried(commands: Commands, folder: Path, what: str) -> tuple[str, str]:
    """Return what became of a row, and what it said."""
    variant, harm = ROWS[what]
    if variant not in WHOLE:
        whole = Run(commands, folder.with_name(f"whole-{variant}"), variant)
        whole.start()
        whole.end(0)
        WHOLE[variant] = outcome(whole.place)
    run = Run(commands, folder, variant)
    try:
        return "kept", harm(run) or ""
    except PermissionError as error:
        if str(error) != "needs root":
            raise
        return "not tried", str(error)
    except (Broken, AssertionError) as error:
        return "BROKEN", str(error)
    except Exception as error:
        return "BROKEN", f"{type(error).__name__}: {error}"
    finally:
        if "KEEP" in os.environ:
            print(run.said if (run.folder / "output").is_file() else "", file=sys.stderr)
        commands.end()
        for place in commands.aside:
            shutil.rmtree(place, ignore_errors=True)
        if "KEEP" not in os.environ:
            subprocess.run(["chattr", "-R", "-i", folder], stderr=subprocess.DEVNULL)
            shutil.rmtree(folder, ignore_errors=True)


def write(lines: dict[str, str]) -> int:
    """Write what became of all rows that are known; return how many promises were not kept."""
    found = [lines[cell(what)] for what in ROWS if cell(what) in lines]
    kept, broken = (sum(f" | {word} | " in line for line in found) for word in ("kept", "BROKEN"))
    head = [
        "# Harmed and resumed",
        "",
        f"`python benchmarks/resume/harm.py`: {len(found)} injections, {kept} promises kept. A command that is harmed "
        "comes to its end all the same, or",
        "ends with a word and an exit code that is not 0; no process outlives it, and the run goes on to the same "
        "weights, metrics and best",
        "checkpoint, bit for bit, when the harm is undone. What is refused changes no byte of the run.",
        "",
        "| injected | promise | what the harmed command came to |",
        "| --- | --- | --- |",
    ]
    RESULTS.write_text("\n".join([*head, *found]) + "\n", encoding="utf-8")
    return broken


def main(words: list[str]) -> int:
    lines = known(RESULTS) if words else {}
    broken = 0
    for number in (signal.SIGHUP, signal.SIGQUIT):  # which nohup and a shell's background ignore, and so would all
        signal.signal(number, signal.SIG_DFL)
    with tempfile.TemporaryDirectory() as scratch:
        Path(scratch).chmod(0o755)
        commands = commands_of(Path(scratch))
        for number, what in enumerate(chosen(ROWS, words, lines)):
            started = time.monotonic()
            verdict, said = tried(commands, Path(scratch, str(number)), what)
            said = said.replace(scratch, "").replace(str(commands.project), "PROJECT")
            lines[cell(what)] = table_line(what, verdict, said)
            broken = write(lines)
            print(f"{time.monotonic() - started:.0f} s {lines[cell(what)]}", flush=True)
    forked.end_servers()
    print(f"{len(lines)} injections, {broken} promises broken")
    return int(broken > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
