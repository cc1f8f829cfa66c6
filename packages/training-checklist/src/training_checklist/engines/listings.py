"""Folders that list their files in another order, as they do on another machine: no file system promises one."""

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest.mock import patch

from training_checklist.engines.places import own_frame_at_work


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
def listed_backwards() -> Iterator[set[tuple[str, int]]]:
    """While it is entered, what lists a folder gets the last entry first: os, glob and pathlib.

    Yields a set that is given file and line of each line of the project that does.
    """
    listdir, scandir = os.listdir, os.scandir
    lines: set[tuple[str, int]] = set()
    looking: list[bool] = []  # whose code it is may have to be looked up in folders, too

    def told(list_folder: Callable[..., Any]) -> Callable[..., Any]:
        def listed(*given: Any) -> Any:
            if not looking:
                looking.append(True)
                frame = own_frame_at_work()
                lines.update([(frame.f_code.co_filename, frame.f_lineno)] if frame is not None else [])
                looking.clear()
            return list_folder(*given)

        return listed

    with ExitStack() as patches:
        patches.enter_context(patch.object(os, "listdir", told(lambda *given: listdir(*given)[::-1])))
        patches.enter_context(patch.object(os, "scandir", told(lambda *given: Backwards(scandir(*given)))))
        yield lines
