"""Commands of a project, each in a process of its own that begins with everything heavy imported."""

import multiprocessing
import os
import runpy
import signal
import sys
import time
from collections.abc import Sequence
from multiprocessing.context import ForkServerProcess
from pathlib import Path

# Most of what a short command takes is spent on importing these. Importing starts no threads, so that forking is safe.
HEAVY = (
    "torch",
    "pytorch_lightning",
    "torchmetrics.classification",
    "torch.utils.tensorboard",
    "hydra.main",
    "rich.table",
)
LIMIT = 900  # seconds after which a command is stopped

LIVE: set[ForkServerProcess] = set()


def start_server(variables: dict[str, str]) -> None:
    """Start the process that all commands are forked from, under these environment variables."""
    os.environ |= variables
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(list(HEAVY))


def train(folder: Path, source: Sequence[str], overrides: list[str]) -> tuple[int | None, float]:
    """Run `python train.py` with `overrides` in a folder; what it says goes to <folder>.txt, outside of it.

    Args:
        source: folders that packages are imported from, relative to `folder` or absolute.

    Returns:
        The exit code, or None where it had to be stopped, and seconds.
    """
    paths = [str(folder / each) for each in source]
    process = multiprocessing.get_context("forkserver").Process(target=_train, args=(str(folder), paths, overrides))
    LIVE.add(process)
    started = time.monotonic()
    process.start()
    process.join(LIMIT)
    code = process.exitcode
    end(process)
    LIVE.discard(process)
    return code, round(time.monotonic() - started, 1)


def end_all() -> None:
    for process in list(LIVE):
        end(process)


def end(process: ForkServerProcess) -> None:
    """Kill what is left of a command, and of the processes that it started."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):  # all of it has ended, or it has not begun
        process.kill()
    process.join()


def _train(folder: str, paths: list[str], overrides: list[str]) -> None:
    os.setsid()
    multiprocessing.set_start_method(None, force=True)  # the platform's own for loader workers
    os.chdir(folder)
    output = os.open(f"{folder}.txt", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(output, 1)
    os.dup2(output, 2)
    own = Path(__file__).parent
    for name in [
        name for name, module in sys.modules.items() if own in Path(getattr(module, "__file__", None) or "/").parents
    ]:
        del sys.modules[name]  # which +debug=config would take for code of the project
    os.environ["PYTHONPATH"] = os.pathsep.join(paths)
    sys.path[:] = [folder, *paths, *(path for path in sys.path if path != str(own))]
    sys.argv = ["train.py", *overrides]
    runpy.run_path("train.py", run_name="__main__")
