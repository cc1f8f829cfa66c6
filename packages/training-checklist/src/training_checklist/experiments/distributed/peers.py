"""The other ranks of a job: who of them is there, and what has become of one that is not."""

import json
import os
import signal
import time
import traceback
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from subprocess import Popen
from typing import Any

from training_checklist.ending import CheckFailed
from training_checklist.engines.own_code import is_own
from training_checklist.engines.places import of_frame
from training_checklist.experiments.distributed.forked_ranks import ForkedRanks
from training_checklist.experiments.distributed.presence import Presence, Sign, is_dead, line_of
from training_checklist.experiments.distributed.stages import RENDEZVOUS
from training_checklist.finding import NOWHERE, Finding
from training_checklist.lab.ranks import (
    EndedRank,
    FailedCollective,
    HungRank,
    LeftRank,
    MissingRank,
    SlowPreparation,
)
from training_checklist.reporting.ranks import rank_file
from training_checklist.starting.fork import Fork

POLL = 0.02  # seconds
GRACE = 4.0  # seconds for a rank that has failed to write down why; less than its launcher gives the others
SOON = 1.0  # seconds of those, for a rank that shows no sign of having failed
# What a collective says that has lost a rank, or waited too long for one: of gloo and NCCL, whose errors have no class.
CONSEQUENCES = ("gloo", "NCCL", "closed by peer", "reset by peer", "Broken pipe", "imed out", "timeout", "Socket")


class Parted(CheckFailed):
    """The ranks cannot go on together.

    Args:
        event: evidence of why, or what another rank has found.
    """

    def __init__(self, event: Any) -> None:
        super().__init__("the ranks cannot go on together")
        self.event = event


class Peers:
    """The other ranks.

    Args:
        folder: the run's directory, which all ranks share.
        item: whose verdicts ranks leave there.
        rendezvous_timeout: seconds to wait for a rank to start.
        prepare_timeout: seconds to wait for prepare_data.
        timeout: seconds to wait for anything after that.
    """

    def __init__(
        self, folder: Path, item: str, rank: int, rendezvous_timeout: float, prepare_timeout: float, timeout: float
    ) -> None:
        self.folder, self.item, self.rank = folder, item, rank
        self.rendezvous_timeout, self.prepare_timeout, self.timeout = rendezvous_timeout, prepare_timeout, timeout
        self.expected = 1
        self.limit = rendezvous_timeout  # of the collectives of training
        self.children: list[Popen | Fork] = list(ForkedRanks.current.others) if ForkedRanks.current is not None else []
        self.trains = False  # whether the ranks have met
        self.network_tested = False
        self.presence = Presence(folder / "debug", rank, self.gone, GRACE)

    def arrive(self, world_size: int) -> float:
        """Wait for all ranks of this machine, and return the time-out of the group that is to form.

        Inside init_process_group nobody would notice that one of them has died.
        """
        self.expected = world_size
        self.presence.reach(RENDEZVOUS)
        if world_size not in (len(self.children) + 1, int(os.environ.get("LOCAL_WORLD_SIZE", "0"))):
            return self.limit
        deadline = time.monotonic() + self.rendezvous_timeout
        while sum(sign.count > 0 for sign in self.presence.others().values()) < world_size - 1:
            if self.gone() is not None or time.monotonic() > deadline:
                raise Parted(self.lost(self.gone() or "time-out"))
            time.sleep(POLL)
        self.limit = self.timeout
        return self.limit

    def behind(self) -> list[Sign]:
        """Return the signs of the ranks that have not come as far as this one."""
        return [sign for sign in self.presence.others().values() if sign.count < self.presence.sign.count]

    def gone(self) -> str | None:
        """Return what has become of a rank that has gone, or None."""
        for rank, child in enumerate(self.children, 1):
            if child.poll() not in (None, 0):
                return f"rank {rank} {ended(child)}"
        for rank, sign in self.presence.others().items():
            if is_dead(sign):
                return f"rank {rank} has ended"
            if sign.left:
                return f"rank {rank} has stopped at {sign.stage}"
        return f"prepare_data takes longer than {self.prepare_timeout:g} s" if self._prepares_too_long() else None

    def is_loss(self, error: BaseException) -> bool:
        """Whether an exception says that another rank is missing, and is nothing that the project itself raised."""
        frames = traceback.extract_tb(error.__traceback__)
        own = bool(frames) and is_own(frames[-1].filename)
        said = isinstance(error, (RuntimeError, OSError)) and any(word in str(error) for word in CONSEQUENCES)
        return said and not own

    def lost(self, error: str, raised: BaseException | None = None) -> Any:
        """Return what has become of the rank that this one has waited for: its own finding if it has left one."""
        asked = time.monotonic()
        others = self.presence.others()
        while time.monotonic() < asked + GRACE:
            told = self.told()
            if told is not None:
                return told
            others = self.presence.others()
            if not any(sign.left for sign in others.values()) and time.monotonic() > asked + SOON:
                break
            time.sleep(5 * POLL)
        here = self.rank, self.presence.sign.stage
        if self._prepares_too_long():
            signs = {self.rank: self.presence.sign} | others
            busy = next((rank for rank, sign in signs.items() if "prepare_data" in sign.at.function), self.rank)
            return SlowPreparation(busy, self.prepare_timeout, signs[busy].at, signs[busy].calls)
        for rank, child in enumerate(self.children, 1):
            if child.poll() not in (None, 0):
                stage = others[rank].stage if rank in others else "its start"
                return EndedRank(rank, ended(child), stage, here, child.returncode if child.returncode > 0 else None)
        for rank, sign in others.items():
            if is_dead(sign):
                return EndedRank(rank, "has ended without a word", sign.stage, here)
        missing = [rank for rank in range(self.expected) if rank not in others and rank != self.rank]
        if missing and self.trains:  # it has taken its sign away, as its part of the check has come to its end
            stack = [] if raised is None else traceback.walk_tb(raised.__traceback__)
            own = [of_frame(frame, line=line) for frame, line in stack if is_own(frame.f_code.co_filename)]
            return LeftRank(missing[0], self.rank, own[-1] if own else NOWHERE)
        if missing:
            return MissingRank(missing[0], self.expected, here)
        if self.behind():
            return self.hung(self.behind()[0])
        line = NOWHERE if raised is None else line_of(traceback.extract_tb(raised.__traceback__))[0]
        at = {rank: sign.stage if sign.at == NOWHERE else sign.at for rank, sign in others.items()}
        told = "; ".join(f"rank {rank} is at {place}" for rank, place in at.items())
        brief = error.splitlines()[0].rpartition("] ")[2]  # without what gloo puts in front of what it says
        return FailedCollective(self.rank, here[1], brief, self.expected, told, self.network_tested, line)

    def hung(self, sign: Sign) -> HungRank:
        seconds, setting = (self.timeout, "timeout") if self.trains else (self.rendezvous_timeout, "rendezvous_timeout")
        return HungRank(sign.rank, self.presence.sign.stage, sign.stage, seconds, setting, sign.at, sign.calls)

    def told(self) -> Finding | None:
        """Return what another rank has found, of those that have written their verdict."""
        for rank in range(self.expected):
            path = rank_file(self.folder, rank)
            if rank == self.rank or not path.is_file():
                continue
            for verdict in json.loads(path.read_text(encoding="utf-8")):
                if verdict["item"] == self.item and verdict["findings"]:
                    finding = Finding.from_dict(verdict["findings"][-1])  # the last is the exception
                    return of_rank(finding, rank)
        return None

    def _prepares_too_long(self) -> bool:
        waited = time.monotonic() - self.presence.reached_at
        return self.presence.sign.stage == RENDEZVOUS and waited > self.prepare_timeout


def wait_for(children: Iterable[Popen | Fork]) -> None:
    """Give ranks that this one has started a little time to end, and end them after that."""
    deadline = time.monotonic() + GRACE
    for child in children:
        while child.poll() is None and time.monotonic() < deadline:
            time.sleep(POLL)
        if child.poll() is None:
            child.kill()


def of_rank(finding: Finding, rank: int) -> Finding:
    return finding if finding.place.rank else replace(finding, place=finding.place.beside(rank=str(rank)))


def ended(child: Popen | Fork) -> str:
    if child.returncode < 0:
        return f"was ended by {signal.Signals(-child.returncode).name}"
    return f"has ended with exit code {child.returncode}"
