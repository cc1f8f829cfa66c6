"""Runs the script of a project that a test has written, in this process."""

import json
import linecache
import runpy
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from in_project import own_conftest
from training_checklist.engines.own_code import is_installed
from training_checklist.lab import code_reads

ASKED = '[tool.training-checklist]\ngroup = "debug"\n'


OTHERS = ("digit_classifier.", "examples.", "training_runs.")
"""Another project's code, which other tests have imported: items read what the process has loaded."""


@contextmanager
def without_others() -> Iterator[None]:
    """The modules of `OTHERS` are imported anew inside; afterwards those from before are what each name stands for."""
    before = {name: module for name, module in sys.modules.items() if name.startswith(OTHERS)}
    for name in before:
        del sys.modules[name]
    try:
        yield
    finally:
        for name in [name for name in sys.modules if name.startswith(OTHERS)]:
            del sys.modules[name]
        sys.modules.update(before)
        for name, module in before.items():
            parent, _, child = name.rpartition(".")
            setattr(sys.modules[parent], child, module)  # which the imports inside have set to theirs


def own_and_installed(folder: Path, loaded: Callable[[], Iterator[Path]]) -> Iterator[Path]:
    """Yield what a process of its own would have loaded."""
    yield from (path for path in loaded() if path.is_relative_to(folder) or is_installed(str(path)))


@contextmanager
def as_command(folder: Path, *argv: str) -> Iterator[None]:
    """A command in the folder of a project that is a test's own: its modules are imported, and forgotten in the end."""
    modules = {path.stem for path in folder.glob("*.py")}
    with own_conftest().as_process(folder, *argv), pytest.MonkeyPatch.context() as patch, without_others():
        linecache.clearcache()  # there may have been another train.py
        patch.setattr(code_reads, "loaded", partial(own_and_installed, folder.resolve(), code_reads.loaded))
        patch.syspath_prepend(folder)
        try:
            yield
        finally:
            for name in modules:
                sys.modules.pop(name, None)


def run_project(folder: Path, items: str, files: dict[str, str], *arguments: str) -> list[dict[str, Any]]:
    """Write `files` and run train.py with debug items "a,b"; their verdicts, in the order of the jobs."""
    for name, text in {"pyproject.toml": ASKED, **files}.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    before = set(folder.rglob("report.json"))
    code = 0
    with as_command(folder, "train.py", *arguments, f"debug=[{items}]"):
        try:
            runpy.run_path("train.py", run_name="__main__")
        except SystemExit as stop:
            code = stop.code
    reports = sorted(set(folder.rglob("report.json")) - before)
    verdicts = [verdict for path in reports for verdict in json.loads(path.read_text())["items"]]
    assert (code or 0) == (1 if any(verdict["verdict"] == "failed" for verdict in verdicts) else 0)
    return verdicts
