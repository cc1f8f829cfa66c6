"""Several processes that take turns, so that whatever else the machine does falls on all of them alike.

A contender calls `next` at the start of a stretch of work; this ends its last turn and waits for the word to go on.
"""

import json
import os
import resource
import socket
import time
from collections.abc import Callable, Iterator
from typing import Any

PORT = "BENCHMARK_PORT"  # variable with the server's port on this machine
NAME = "BENCHMARK_NAME"  # variable with the contender's name


class Turns:
    """The contender's side; it imports nothing that would count as the memory of what is measured."""

    def __init__(self) -> None:
        self.file = socket.create_connection(("127.0.0.1", int(os.environ[PORT]))).makefile("rw")
        self.started: tuple[float, float] | None = None
        self._say({"name": os.environ[NAME]})

    def next(self, **content: Any) -> None:
        """End the turn, telling `content` about it, and begin another."""
        self._end(content)
        self.file.readline()
        self.started = time.perf_counter(), time.process_time()

    def finish(self, **content: Any) -> None:
        self._end(content | {"last": True})

    def _end(self, content: dict[str, Any]) -> None:
        if self.started is not None:
            wall, cpu = self.started
            peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024  # MiB
            self._say({"wall": time.perf_counter() - wall, "cpu": time.process_time() - cpu, "peak": peak} | content)

    def _say(self, content: dict[str, Any]) -> None:
        self.file.write(json.dumps(content) + "\n")
        self.file.flush()


class Server:
    """Lets contenders that were started with `environment(name)` take turns."""

    def __init__(self) -> None:
        self.socket = socket.create_server(("127.0.0.1", 0))
        self.socket.settimeout(1)

    def environment(self, name: str) -> dict[str, str]:
        return {PORT: str(self.socket.getsockname()[1]), NAME: name}

    def rounds(self, names: list[str], check: Callable[[], None]) -> Iterator[dict[str, dict[str, Any]]]:
        """Yield what each contender tells of its turn, a round at a time, until one says that it was its last.

        `check` is called while they start, to raise where one has ended.
        """
        files = {}
        while len(files) < len(names):
            check()
            try:
                file = self.socket.accept()[0].makefile("rw")
            except TimeoutError:
                continue
            files[json.loads(file.readline())["name"]] = file
        while True:
            told = {}
            for name in names:
                print("go", file=files[name], flush=True)
                line = files[name].readline()
                if not line:  # it has ended
                    return
                told[name] = json.loads(line)
            yield told
            if any(content.get("last") for content in told.values()):
                return
