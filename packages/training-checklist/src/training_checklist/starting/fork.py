"""Processes that begin with all that this one has imported: what most of a short command's time goes into."""

import atexit
import contextlib
import gc
import importlib
import multiprocessing.util
import os
import random
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterable, Iterator
from io import FileIO, TextIOWrapper
from pathlib import Path
from typing import Any

from training_config.uncollected_imports import uncollected_imports

PROBE_SECONDS = 3  # the probe takes 0.05 s; a process that cannot use its threads never ends


class Fork:
    """A process forked from this one, as `subprocess.Popen` shows one.

    It leaves nothing of this process's behind when it ends: what was to happen at the end here does not happen there.

    Args:
        run: what it does; a SystemExit that it raises has its usual meaning. None: it goes on from here as this process
            does, and its `pid` is 0.
        output: what it prints goes to this file, and it is asked nothing; None leaves both as they are.
    """

    def __init__(self, run: Callable[[], Any] | None = None, output: Path | None = None) -> None:
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        gc.freeze()  # what is collected in the fork would be copied
        self.returncode: int | None = None
        self.pid = os.fork()
        if self.pid == 0 and run is not None:
            become(run, output)
        gc.unfreeze()

    def poll(self) -> int | None:
        if self.returncode is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            self.returncode = os.waitstatus_to_exitcode(status) if pid else None
        return self.returncode

    def kill(self) -> None:
        os.kill(self.pid, signal.SIGKILL)


def become(run: Callable[[], Any], output: Path | None) -> None:
    """Run and end as an interpreter does, in a fork, which never returns from here."""
    code = 1
    try:
        atexit._clear()
        multiprocessing.util._finalizer_registry.clear()
        if output is not None:
            os.setsid()
        redirect(output)
        run()
        code = 0
    except SystemExit as stop:
        if stop.code is None or isinstance(stop.code, int):
            code = stop.code or 0
        else:
            print(stop.code, file=sys.stderr)
    except BaseException:
        traceback.print_exc()
    finally:
        with contextlib.suppress(BaseException):
            threading._shutdown()
            atexit._run_exitfuncs()
            multiprocessing.util._exit_function()
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(BaseException):
                stream.flush()
        os._exit(code & 255)


def redirect(output: Path | None) -> None:
    """Let all that this process prints go to a file, or where this command's output goes."""
    if output is not None:
        for stream, path in enumerate((os.devnull, output, output)):
            descriptor = os.open(path, os.O_RDONLY if stream == 0 else os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o666)
            os.dup2(descriptor, stream)
            os.close(descriptor)
    for name, number in (("stdout", 1), ("stderr", 2)):
        own = number_of(getattr(sys, name))
        if own is None or (output is not None and own != number):
            file = FileIO(number, "w", closefd=False)
            setattr(sys, name, TextIOWrapper(file, "utf-8", "backslashreplace", write_through=True))


def number_of(stream: Any) -> int | None:
    """Return the descriptor behind a stream, None where this process only gathers what is written to it."""
    try:
        return stream.fileno()
    except (OSError, ValueError, AttributeError):
        return None


def is_safe() -> bool:
    """Whether a fork of this process can do what a process can that begins anew. Imports torch."""
    # Elsewhere there is no fork, or system libraries do not bear it.
    if sys.platform != "linux":
        return False
    # A thread that is gone in the fork may have held a lock. Daemons may be cut off at any moment anyway.
    if any(not thread.daemon for thread in threading.enumerate() if thread is not threading.main_thread()):
        return False
    if threading.current_thread() is not threading.main_thread():
        return False
    import torch

    if torch.cuda.is_initialized():
        return False
    return survives(use_threads)


def use_threads() -> None:
    """Do what hangs or raises where this process has used torch's threads already, of operations and of backward."""
    import torch

    weight = torch.ones(1 << 17, requires_grad=True)  # from 32768 numbers on torch splits the work
    (weight * 2).sum().backward()


def survives(trial: Callable[[], None]) -> bool:
    """Whether a fork comes to the end of something within `PROBE_SECONDS`."""
    probe, end = Fork(trial, Path(os.devnull)), time.monotonic() + PROBE_SECONDS
    while probe.poll() is None and time.monotonic() < end:
        time.sleep(0.002)
    if probe.returncode is None:
        probe.kill()
        os.waitpid(probe.pid, 0)
    return probe.returncode == 0


@contextlib.contextmanager
def undrawn() -> Iterator[None]:
    """Put the generators that a project seeds back to where they stood."""
    numpy, torch = sys.modules.get("numpy"), sys.modules.get("torch")
    states = random.getstate(), numpy and numpy.random.get_state(), torch and torch.get_rng_state()
    try:
        yield
    finally:
        random.setstate(states[0])
        if numpy is not None:
            numpy.random.set_state(states[1])
        if torch is not None:
            torch.set_rng_state(states[2])


def import_all(names: Iterable[str]) -> None:
    """Import modules, as far as they can be; what they draw as they are imported is not missing from a seeded run."""
    with uncollected_imports(), undrawn():
        for name in names:
            with contextlib.suppress(Exception):
                importlib.import_module(name)
