"""Fixtures that generate projects as a user does: with cookiecutter's command line, in its own process."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def template() -> Path:
    """The root of this repository."""
    return Path(__file__).parents[1]


@pytest.fixture(scope="session")
def environment(tmp_path_factory) -> dict[str, str]:
    """Environment variables under which a developer's own cookiecutter and git settings don't count."""
    home = tmp_path_factory.mktemp("home")
    settings = {"cookiecutters_dir": str(home / "cookiecutters"), "replay_dir": str(home / "replay")}
    (home / "cookiecutter.yaml").write_text(json.dumps(settings), encoding="utf-8")
    (home / "gitconfig").write_text("[user]\nname = Ada\nemail = ada@example.org\n", encoding="utf-8")
    # GIT_DIR and its kind are set where the tests run from a git hook.
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    return inherited | {
        "HOME": str(home),
        "USERPROFILE": str(home),
        "COOKIECUTTER_CONFIG": str(home / "cookiecutter.yaml"),
        "GIT_CONFIG_GLOBAL": str(home / "gitconfig"),
        "GIT_CONFIG_NOSYSTEM": "1",
        "PYTHONUTF8": "1",
    }


@pytest.fixture(scope="session")
def cookiecutter(template, environment):
    """`cookiecutter(out_dir, **answers)`: the finished process, whatever became of it."""

    def run(out_dir: Path, **answers: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "cookiecutter", "--no-input", "--output-dir", out_dir, template]
        command += [f"{question}={answer}" for question, answer in answers.items()]
        return subprocess.run(command, env=environment, capture_output=True, encoding="utf-8")

    return run


@pytest.fixture(scope="session")
def generate(cookiecutter):
    """`generate(out_dir, **answers)`: the generated project's folder, the only one in `out_dir`."""

    def run(out_dir: Path, **answers: str) -> Path:
        finished = cookiecutter(out_dir, **answers)
        assert finished.returncode == 0, finished.stderr
        [project] = out_dir.iterdir()
        return project

    return run
