"""Folders that list their files in another order, as they do on another machine: no file system promises one."""

import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest.mock import patch


class Backwards:
    """The entries of a folder, the last one first; used as `os.scandir` is."""

    def __init__(self, entries: Any) -> None:
        with entries:
            self._entries = iter([*entries][::-1])

    def __iter__(self) -> "Backwards":
        return self

    def __next__(self) -> Any:
        return next(self._entries)

    def __enter__(self) -> "Backwards":
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        self._entries = iter(())


@contextmanager
def listed_backwards() -> Iterator[None]:
    """While it is entered, what lists a folder gets the last entry first: os, glob and pathlib."""
    listdir, scandir = os.listdir, os.scandir
    with ExitStack() as patches:
        patches.enter_context(patch.object(os, "listdir", lambda *given: listdir(*given)[::-1]))
        patches.enter_context(patch.object(os, "scandir", lambda *given: Backwards(scandir(*given))))
        yield
