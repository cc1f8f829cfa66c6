"""Where each rank of a job is, told through files, so that it is known of those too that hang or are gone."""

import json
import os
import signal
import socket
import sys
import threading
import time
import traceback
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from training_checklist.ending import CheckFailed
from training_checklist.engines.own_code import is_own, shorten
from training_checklist.finding import NOWHERE, Place

BEAT = 0.5  # seconds between two signs of life
DEAD = 5.0  # seconds without one after which a rank of another machine is taken for dead
OLD = 60.0  # seconds before this rank's start; what was said earlier was said in a former run in this directory
BUSY = 2.0  # seconds in one stage after which a rank says which line it executes

LOOPS = os.path.join("lightning", "loops", "")  # of pytorch_lightning


class Interrupted(CheckFailed):
    """Raised in a rank that waits for one that will never come."""


@dataclass
class Sign:
    """What a rank says of itself.

    Args:
        stage: what it reached last.
        count: how many stages it has reached.
        at: the project's line that it executes, of a rank that has been in one stage for a while.
        calls: the library's function that it waits in there.
        left: whether it has stopped training, because of an exception or at the end.
        time: when it said so.
    """

    rank: int
    pid: int
    host: str
    stage: str = "its start"
    count: int = 0
    at: Place = NOWHERE
    calls: str = ""
    left: bool = False
    time: float = 0.0


class Presence:
    """Says where this rank is until it is closed, and wakes it when another has gone.

    Args:
        folder: a directory that all ranks share.
        gone: says what has become of another rank, or None. While it says something and this rank does not notice
            by itself for `patience` seconds, `Interrupted` is raised in the main thread.
    """

    def __init__(self, folder: Path, rank: int, gone: Callable[[], str | None], patience: float) -> None:
        self.folder, self.gone, self.patience = folder, gone, patience
        self.sign = Sign(rank, os.getpid(), socket.gethostname())
        self.since = time.time() - OLD
        self.reached_at = time.monotonic()
        self.lock = threading.Lock()
        self.closed = threading.Event()
        self.settled = False
        self.waited = "", 0.0  # where the stage before this one ended, and how long it took
        self.main = threading.main_thread().ident
        folder.mkdir(parents=True, exist_ok=True)
        self._write()
        self.wakes = hasattr(signal, "SIGALRM") and threading.current_thread() is threading.main_thread()
        if self.wakes:
            self.former = signal.signal(signal.SIGALRM, self._interrupt)
        threading.Thread(target=self._beat, daemon=True).start()

    def reach(self, stage: str) -> None:
        """Say that this rank has come to a stage."""
        self.waited = self.sign.calls, time.monotonic() - self.reached_at
        self.reached_at = time.monotonic()
        self.sign.stage, self.sign.at, self.sign.calls = stage, NOWHERE, ""
        self.sign.count += 1
        self._write()

    def settle(self) -> None:
        """Be woken no more: this rank has noticed."""
        self.settled = True

    def leave(self) -> None:
        """Say that this rank trains no more, and nothing after that."""
        if self.closed.is_set():
            return
        self.closed.set()
        if self.wakes:
            signal.signal(signal.SIGALRM, self.former)
        self.sign.left = True
        self._write()

    def remove(self) -> None:
        self.leave()
        path(self.folder, self.sign.rank).unlink(missing_ok=True)

    def others(self) -> dict[int, Sign]:
        """Return the last sign of every other rank that has started."""
        signs = []
        for file in self.folder.glob(".presence*.json"):
            with suppress(FileNotFoundError):  # that rank has just removed it
                content = json.loads(file.read_text(encoding="utf-8"))
                signs.append(Sign(**content | {"at": Place(**content["at"])}))
        return {sign.rank: sign for sign in signs if sign.rank != self.sign.rank and sign.time > self.since}

    def _beat(self) -> None:
        missed_at = None
        while not self.closed.wait(BEAT):
            if not self.settled and time.monotonic() - self.reached_at > BUSY:
                self.sign.at, self.sign.calls = line_of(traceback.extract_stack(sys._current_frames()[self.main]))
            self._write()
            missed_at = None if self.settled or self.gone() is None else missed_at or time.monotonic()
            if missed_at is not None and self.wakes and time.monotonic() - missed_at > self.patience:
                signal.pthread_kill(self.main, signal.SIGALRM)
                missed_at = time.monotonic()

    def _interrupt(self, *_: object) -> None:
        if self.settled:
            return
        raise Interrupted(self.gone() or "another rank has gone")

    def _write(self) -> None:
        with self.lock:
            self.sign.time = time.time()
            draft = path(self.folder, self.sign.rank).with_suffix(".draft")
            with suppress(FileNotFoundError):  # that of a further Trainer has just said so, or the folder is gone
                draft.write_text(json.dumps(asdict(self.sign)), encoding="utf-8")
                draft.replace(path(self.folder, self.sign.rank))


def path(folder: Path, rank: int) -> Path:
    return folder / f".presence{rank}.json"


def is_dead(sign: Sign) -> bool:
    """Whether a rank's process has ended."""
    if sign.host != socket.gethostname() or sys.platform == "win32":
        return time.time() - sign.time > DEAD and not sign.left
    return has_ended(sign.pid)


def has_ended(process: int) -> bool:
    """Whether a process of this machine has ended; one that its parent has not noticed yet is a zombie."""
    try:
        os.kill(process, 0)
        return Path(f"/proc/{process}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0] == "Z"
    except ProcessLookupError:
        return True
    except OSError:  # no /proc
        return False


def line_of(stack: traceback.StackSummary) -> tuple[Place, str]:
    """Return the innermost line of the project's code in a stack, and the library's function that waits there.

    The line is nowhere where Lightning's loops wait on their own account.
    """
    frames = list(reversed(stack))
    waits = next((frame for frame in frames if "wrapper" not in frame.name), frames[0])
    inner = next((index for index, frame in enumerate(frames) if is_own(frame.filename)), None)
    if inner == 0:
        waits = None
    if inner is None or any(LOOPS in frame.filename for frame in frames[:inner]):
        line = NOWHERE
    else:
        own = frames[inner]
        line = Place(file=shorten(own.filename), line=own.lineno or 0, function=own.name, source=own.line or "")
    return line, "" if waits is None else f"{waits.name} of {shorten(waits.filename)}"
