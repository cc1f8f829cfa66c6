"""Python processes that begin with torch, Lightning and Hydra imported: what most of a short command's time goes into.

A server imports them once and forks. What runs in a fork is a command as any other: it has a session, a working
directory, an environment, arguments and an output of its own, and does what an interpreter does at its end.
"""

import atexit
import gc
import json
import multiprocessing
import os
import runpy
import selectors
import signal
import site
import socket
import subprocess
import sys
import sysconfig
import tempfile
import threading
from contextlib import suppress
from io import FileIO, TextIOWrapper
from pathlib import Path
from typing import Any

# Importing these starts no threads, so that forking is safe.
HEAVY = (
    "torch",
    "torch.distributed.elastic.multiprocessing.errors",
    "pytorch_lightning",
    "torchmetrics.classification",
    "torch.utils.tensorboard",
    "hydra.main",
    "rich.table",
    "pydantic",
)
# Variables that are read while these are imported: each set of values has a server of its own.
READ_BY_IMPORTS = ("OMP_", "MKL_", "CUDA_", "PL_")
# And those of a rank, which is nothing that many commands are.
OF_RANKS = ("TORCHELASTIC_", "SLURM_", "RANK", "LOCAL_RANK", "WORLD_SIZE", "MASTER_")

MARK = "COMMANDS_OF_TEST"  # variable that every process of a command inherits, and by which it is found and ended

SERVERS: dict[frozenset[tuple[str, str]], "Server"] = {}
STARTING = threading.Lock()


def start(
    arguments: list[str], folder: Path, environment: dict[str, str], output: Path, errors: Path, executable: str
) -> "Process | subprocess.Popen":
    """Start `python arguments...` in a session of its own: as a fork where it can be one, or else as it is.

    Args:
        output: file that its output is written to; `errors` may be the same one.
        executable: the Python that it is for.
    """
    for path in (output, errors):
        path.write_bytes(b"")
    is_program = arguments[0].endswith(".py") or arguments[0] == "-m"
    can_fork = sys.platform == "linux"  # elsewhere there is no fork, or system libraries do not bear it
    if not can_fork or not is_program or any(name.startswith(OF_RANKS) for name in environment):
        with output.open("ab") as said, errors.open("ab") as wrong:
            return subprocess.Popen(
                [executable, *arguments],
                cwd=folder,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=said,
                stderr=wrong,
                start_new_session=True,
            )
    key = frozenset(each for each in environment.items() if each[0].startswith(READ_BY_IMPORTS))
    with STARTING:
        server = SERVERS.get(key) or SERVERS.setdefault(key, Server(environment))
    said = {
        "arguments": arguments,
        "folder": str(folder),
        "environment": environment,
        "output": str(output),
        "errors": str(errors),
        "executable": executable,
    }
    return Process(server.address, said)


def end_servers() -> None:
    for server in SERVERS.values():
        server.end()
    SERVERS.clear()


class Server:
    """A process that forks others.

    Args:
        environment: the variables that it starts with.
    """

    def __init__(self, environment: dict[str, str]) -> None:
        self.folder = tempfile.TemporaryDirectory()
        self.address = str(Path(self.folder.name, "server"))
        self.process = subprocess.Popen(
            [sys.executable, __file__, self.address],
            env={name: value for name, value in environment.items() if name != MARK},  # it is no command itself
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self.process.stdout.readline() == "ready\n"

    def end(self) -> None:
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()
        self.folder.cleanup()


class Process:
    """A forked process, as `subprocess.Popen` shows one."""

    def __init__(self, address: str, said: dict[str, Any]) -> None:
        self.args, self.returncode = said["arguments"], None
        self.line = socket.socket(socket.AF_UNIX)
        self.line.connect(address)
        self.line.sendall(json.dumps(said).encode() + b"\n")
        self.answers = self.line.makefile("rb")
        self.pid = int(self.answers.readline())

    def poll(self) -> int | None:
        try:
            return self.wait(0)
        except subprocess.TimeoutExpired:
            return None

    def wait(self, timeout: float | None = None) -> int:
        if self.returncode is None:
            with selectors.DefaultSelector() as selector:
                selector.register(self.line, selectors.EVENT_READ)
                if not selector.select(timeout):
                    raise subprocess.TimeoutExpired(self.args, timeout or 0)
            self.returncode = int(self.answers.readline())
            self.answers.close()
            self.line.close()
        return self.returncode

    def send_signal(self, signum: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, signum)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


def serve(address: str) -> dict[str, Any]:
    """Fork whenever one is asked for; in the fork, return what it is to do."""
    for name in HEAVY:
        __import__(name)
    gc.freeze()  # as a command does that has imported them itself
    woken, waker = socket.socketpair()
    for end in (woken, waker):
        end.setblocking(False)
    signal.set_wakeup_fd(waker.fileno())
    signal.signal(signal.SIGCHLD, lambda *_: None)
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(address)
    listener.listen()
    print("ready", flush=True)
    lines: dict[int, socket.socket] = {}
    with selectors.DefaultSelector() as selector:
        for each in (listener, woken):
            selector.register(each, selectors.EVENT_READ)
        while True:
            ready = {key.fileobj for key, _ in selector.select()}
            if woken in ready:
                woken.recv(4096)
                reap(lines)
            if listener not in ready:
                continue
            line, _ = listener.accept()
            said = line.makefile("rb").readline()
            pid = os.fork()
            if pid == 0:
                break
            lines[pid] = line
            line.sendall(b"%d\n" % pid)
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    for each in (listener, woken, waker, line, *lines.values()):
        each.close()
    return json.loads(said)


def reap(lines: dict[int, socket.socket]) -> None:
    """Tell of every fork that has ended."""
    while lines:
        pid, status = os.waitpid(-1, os.WNOHANG)
        if pid == 0:
            return
        with lines.pop(pid) as line, suppress(BrokenPipeError):  # nobody waits for it any more
            line.sendall(b"%d\n" % os.waitstatus_to_exitcode(status))


def become(
    arguments: list[str], folder: str, environment: dict[str, str], output: str, errors: str, executable: str
) -> None:
    """Make this process what `executable` would be that starts on `arguments`, and run these."""
    os.setsid()
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    for stream, path in enumerate((os.devnull, output, errors)):
        descriptor = os.open(path, os.O_RDONLY if stream == 0 else os.O_WRONLY | os.O_APPEND)
        os.dup2(descriptor, stream)
        os.close(descriptor)
    for name, stream in (("stdout", 1), ("stderr", 2)):
        setattr(sys, name, TextIOWrapper(FileIO(stream, "w", closefd=False), "utf-8", write_through=True))
    sys.__stdout__, sys.__stderr__ = sys.stdout, sys.stderr
    sys.path[:] = [path for path in environment.get("PYTHONPATH", "").split(os.pathsep) if path] + BEGINNING
    if executable != sys.executable:
        sys.executable = executable
        multiprocessing.set_executable(executable)
        home = str(Path(executable).parents[1])
        site.addsitedir(sysconfig.get_path("purelib", "venv", {"base": home, "platbase": home}))
    program = arguments[1] if arguments[0] == "-m" else arguments[0]
    sys.argv = arguments[arguments.index(program) :]
    sys.path.insert(0, folder if arguments[0] == "-m" else str(Path(program).absolute().parent))
    if arguments[0] == "-m":
        gc.unfreeze()  # it has imported nothing the way the project's scripts do
        runpy.run_module(program, run_name="__main__", alter_sys=True)
    else:
        runpy.run_path(program, run_name="__main__")


def end(code: int) -> None:
    """End as an interpreter does, but for taking apart all that was imported, which takes a second and a half."""
    threading._shutdown()
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    os._exit(code & 255)


if __name__ == "__main__":
    of_python = tuple(filter(None, (sysconfig.get_path("stdlib"), sysconfig.get_path("purelib"))))
    BEGINNING = [path for path in sys.path if path.startswith(of_python) or path.endswith(".zip")]
    try:
        become(**serve(sys.argv[1]))
        end(0)
    except SystemExit as stop:
        if stop.code is not None and not isinstance(stop.code, int):
            print(stop.code, file=sys.stderr)
            end(1)
        end(stop.code or 0)
