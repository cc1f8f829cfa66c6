"""Starts the ranks of one job and waits for them.

python -m training_runs.launching.supervise COUNT FAILURE_FILE RUN MINUTES SCRIPT ...

torch's elastic agent (what torchrun runs) starts, watches and ends the ranks. This adds that they end too when the
process that started this one dies, that the first failure is told from those that it caused, and that ranks which make
no progress for MINUTES are ended.
"""

import json
import logging
import os
import signal
import sys
import tempfile
import threading
import uuid
from contextlib import suppress
from pathlib import Path

from filelock import BaseFileLock
from torch.distributed.elastic.multiprocessing.api import DefaultLogsSpecs, PContext, SignalException
from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
from torch.distributed.launcher.api import LaunchConfig, elastic_launch
from training_config.errors import ConfigError

from training_runs.launching.parent import SUPERVISOR, by_signal, kills
from training_runs.launching.watchdog import Watchdog
from training_runs.records.runs import claim

# Ranks that are asked to stop save first, after a batch and a validation that may take hours: the watchdog, and the
# user who asks again, end those that hang.
STOP_SECONDS = 7 * 24 * 3600
INHERITED: list[BaseFileLock] = []  # locks that end with this process
KILLS = kills()  # before any rank is started
# What a rank says whose peer has gone, or that the agent ends: never the cause.
CONSEQUENCES = ("Connection closed by peer", "Connection reset by peer", "Broken pipe", "NCCL", "SIGTERM", "SystemExit")


def main(count: int, failure_file: Path, run: Path, minutes: float | None, command: list[str]) -> int:
    """Run `command` in `count` ranks of this machine; return the exit code, 0 if all of them ended well."""
    threading.Thread(target=stop_with_parent, args=[run], daemon=True).start()
    watchdog = Watchdog(count, failure_file.parent, minutes, run)
    watchdog.start()
    os.environ[SUPERVISOR] = str(os.getpid())
    logging.getLogger("torch.distributed").setLevel(logging.CRITICAL)  # the ranks have said what is wrong
    with tempfile.TemporaryDirectory() as scratch:
        config = LaunchConfig(
            min_nodes=1,
            max_nodes=1,
            nproc_per_node=count,
            run_id=uuid.uuid4().hex,
            rdzv_backend="c10d",
            rdzv_endpoint="localhost:0",  # any free port
            local_addr="localhost",
            max_restarts=0,
            monitor_interval=0.1,
            logs_specs=DefaultLogsSpecs(log_dir=scratch),
            **patience(),
        )
        try:
            elastic_launch(config, sys.executable)(*command)
        except ChildFailedError as error:
            reason = watchdog.verdict or first_failure(error, count, failure_file)
            failure_file.write_text(reason, encoding="utf-8")
            return 1
        except SignalException as stopped:
            return 128 + stopped.sigval
    return 0


def patience() -> dict[str, int]:
    """Return the argument that gives ranks `STOP_SECONDS` to stop.

    torch 2.11 has none, and kills them after the 30 seconds that its method has as a default.
    """
    if "shutdown_timeout" in LaunchConfig.__dataclass_fields__:
        return {"shutdown_timeout": STOP_SECONDS}
    PContext.close.__defaults__ = (None, STOP_SECONDS)
    return {}


def stop_with_parent(run: Path) -> None:
    """Wait until the other end of standard input is closed, which happens when the parent process ends.

    It has held the run's directory; until the ranks have ended, this process does.
    """
    while os.read(0, 1):  # not sys.stdin: its lock would be held at exit
        pass
    with suppress(ConfigError):  # the parent has ended in order
        INHERITED.append(claim(run))
    os.kill(os.getpid(), signal.SIGTERM)


def first_failure(error: ChildFailedError, count: int, failure_file: Path) -> str:
    """Return a sentence on the rank that failed first and not because of another."""
    files = failure_file.parent.glob(f"{failure_file.name}.*")
    told = [json.loads(path.read_text(encoding="utf-8")) for path in files]
    told.sort(key=lambda failure: failure["time"])
    for failure in told:
        if not any(word in failure["error"] for word in CONSEQUENCES):
            return f"rank {failure['rank']} of {count} failed: {failure['error']}"
    for rank, failure in sorted(error.failures.items()):
        if failure.exitcode < 0 and failure.exitcode != -signal.SIGTERM:
            return f"rank {rank} of {count} was ended by {by_signal(-failure.exitcode, KILLS)}"
    silent = [rank for rank in range(count) if not failure_file.with_name(f"{failure_file.name}.{rank}").is_file()]
    silent = [rank for rank in silent if not failure_file.with_name(f"done.{rank}").is_file()]
    if silent:
        code = error.failures[silent[0]].exitcode if silent[0] in error.failures else 0
        return f"rank {silent[0]} of {count} left without an error amid the job (exit code {code})"
    if told:
        return f"rank {told[0]['rank']} of {count} failed: {told[0]['error']}"
    rank, failure = error.get_first_failure()
    return f"rank {rank} of {count} ended with exit code {failure.exitcode}"


if __name__ == "__main__":
    limit = None if sys.argv[4] == "None" else float(sys.argv[4])
    sys.exit(main(int(sys.argv[1]), Path(sys.argv[2]), Path(sys.argv[3]), limit, sys.argv[5:]))
