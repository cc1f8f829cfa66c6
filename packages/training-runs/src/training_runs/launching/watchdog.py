"""Ends ranks that no longer come further, and says which one the others wait for."""

import os
import signal
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path

POLL = 0.5  # seconds
ANSWER = 3  # seconds within which a process that is not stopped has written its stacks


class Watchdog(threading.Thread):
    """Looks at what `Progress` writes, from the start of training on; all ranks wait when one does.

    Args:
        count: of ranks.
        folder: where they write.
        minutes: without any progress, after which they are ended; None for never.
        run: the run's directory, where stacks.txt is left then.
    """

    def __init__(self, count: int, folder: Path, minutes: float | None, run: Path) -> None:
        super().__init__(daemon=True)
        self.count, self.folder, self.minutes, self.run_folder = count, folder, minutes, run
        self.verdict: str | None = None

    def run(self) -> None:
        if self.minutes is None:
            return
        seen, since = self.progress(), time.monotonic()
        while len(seen) < self.count or time.monotonic() - since < 60 * self.minutes:
            time.sleep(POLL)
            now = self.progress()
            if now != seen or self.is_ending():
                seen, since = now, time.monotonic()
        self.end(seen)

    def progress(self) -> dict[int, tuple[int, int]]:
        """Return process id and count of every rank that trains."""
        found = {}
        for rank in range(self.count):
            path = self.folder / f"progress.{rank}"
            numbers = path.read_text(encoding="utf-8").split() if path.is_file() else []
            if len(numbers) == 2:
                found[rank] = (int(numbers[0]), int(numbers[1]))
        return found

    def is_ending(self) -> bool:
        """Whether a rank has come to its end, or failed: torch's agent ends the others then."""
        return any(self.folder.glob("failure.*")) or any(self.folder.glob("done.*"))

    def end(self, seen: dict[int, tuple[int, int]]) -> None:
        stacks = self.stacks(seen)
        text = "\n".join(f"rank {rank}:\n{stack or 'no answer'}" for rank, stack in stacks.items())
        (self.run_folder / "stacks.txt").write_text(text, encoding="utf-8")
        print(text, file=sys.stderr, flush=True)
        self.verdict = verdict({rank: count for rank, (_, count) in seen.items()}, stacks, self.minutes)
        for process, _ in seen.values():
            with suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)

    def stacks(self, seen: dict[int, tuple[int, int]]) -> dict[int, str]:
        for process, _ in seen.values():
            with suppress(ProcessLookupError):
                os.kill(process, signal.SIGUSR2)
        time.sleep(ANSWER)
        return {rank: (self.folder / f"stack.{rank}").read_text(encoding="utf-8") for rank in seen}


def verdict(counts: dict[int, int], stacks: dict[int, str], minutes: float) -> str:
    """Return a sentence on the ranks that the others wait for: those that do not answer, else the least far."""
    mute = [rank for rank, stack in stacks.items() if not stack]
    named = mute or [rank for rank, count in counts.items() if count == min(counts.values())]
    who = f"rank {named[0]}" if len(named) == 1 else f"ranks {', '.join(map(str, named))}"
    how = ", and stopped: it answers no signal" if mute else ""
    return f"{who} of {len(counts)} made no progress for {minutes:g} minutes{how}; stacks.txt says where each rank was"
