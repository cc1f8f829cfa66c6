"""Runs the script of a project that a test has written, in this process."""

import json
import logging
import os
import runpy
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from hydra.core.global_hydra import GlobalHydra
from hydra.core.hydra_config import HydraConfig

ITEMS = Path(__file__).parents[2] / "conf" / "debug"


@contextmanager
def as_command(folder: Path, *argv: str) -> Iterator[None]:
    """Working directory, arguments, import path, environment and logging of a command, all put back in the end."""
    root = logging.getLogger()
    handlers, level, environment = root.handlers[:], root.level, dict(os.environ)
    modules = {path.stem for path in folder.glob("*.py")}
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.syspath_prepend(folder)
        patch.setattr(sys, "argv", list(argv))
        # This project's own code, which other tests have imported: the item reads what the process has loaded.
        own = "{{ cookiecutter.package }}"
        for name in [
            name for name in sys.modules if name.startswith(f"{own}.") and not name.startswith(f"{own}.debug")
        ]:
            patch.delitem(sys.modules, name)
        try:
            yield
        finally:
            for handler in set(root.handlers) - set(handlers):
                handler.close()
            root.handlers[:], root.level = handlers, level
            os.environ.clear()
            os.environ.update(environment)
            for name in modules:
                sys.modules.pop(name, None)
            GlobalHydra.instance().clear()
            HydraConfig.instance().cfg = None


def run_project(folder: Path, items: str, files: dict[str, str], *arguments: str) -> list[dict[str, Any]]:
    """Write `files` and run train.py with debug items "a,b"; their verdicts, in the order of the jobs."""
    group = {f"conf/debug/{item}.yaml": (ITEMS / f"{item}.yaml").read_text() for item in items.split(",")}
    for name, text in (files | group).items():
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
    assert code == (1 if any(verdict["verdict"] == "failed" for verdict in verdicts) else 0)
    return verdicts
