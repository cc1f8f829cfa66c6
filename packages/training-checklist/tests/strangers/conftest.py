"""`stranger(files)`: a project of somebody else's, in which this package is installed and which does not know it."""

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest
from faulty import forked


class Finished(NamedTuple):
    code: int
    output: str

    def verdict(self, item: str) -> str:
        """What the table says of an item, "none" where it has no row."""
        found = re.search(rf"│ {item} +│ ([\w ]+?) +│", self.output)
        return found[1] if found else "none"


class Stranger:
    def __init__(self, folder: Path, files: dict[str, str]) -> None:
        self.folder = folder
        for name, text in files.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text(text)

    def run(self, *overrides: str, program: str = "train.py", anew: bool = False, inside: str = ".") -> Finished:
        """Run the program; `anew` as a new interpreter, else as a fork of one that has imported torch."""
        environment = os.environ | {"COLUMNS": "200", "CUDA_VISIBLE_DEVICES": ""}
        environment["PYTHONPATH"] = os.pathsep.join(path for path in sys.path if path)
        command, output = [program, *overrides], self.folder.with_suffix(".output")
        here = self.folder / inside
        if anew:
            with output.open("wb") as file:
                done = subprocess.run([sys.executable, *command], cwd=here, env=environment, stdout=file, stderr=file)
            return Finished(done.returncode, output.read_text())
        code = forked.start(command, here, environment, output, output, sys.executable).wait(300)
        return Finished(code, output.read_text())

    def check(self, *overrides: str, items: str = "fast_dev_run,trace", **options: bool | str) -> Finished:
        return self.run("+checklist=all", f"hydra.callbacks.debug.only=[{items}]", *overrides, **options)

    def files(self) -> set[str]:
        """All files of the project, but for reports and what Python keeps."""
        paths = (path.relative_to(self.folder) for path in self.folder.rglob("*") if path.is_file())
        aside = {"debug", "__pycache__"}
        return {path.as_posix() for path in paths if aside.isdisjoint(path.parts[:-1]) or "configs" in path.parts}


@pytest.fixture
def stranger(tmp_path):
    return lambda files: Stranger(tmp_path / "stranger", files)
