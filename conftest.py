"""Fixtures that generate projects as a user does: with cookiecutter's command line, in its own process."""

import json
import logging
import os
import subprocess
import sys
import tempfile
import venv
from dataclasses import dataclass
from pathlib import Path

import pytest
from faulty import forked
from faulty.commands import Commands, sources
from sharing import share_packages

# Lightning, imported before there is a handler, would keep its messages to itself, and from the logs of runs.
logging.getLogger().addHandler(logging.NullHandler())

# Before anything imports torch. Tests run on all cores: threads that wait for one another would slow all of them, two
# ranks and one process sum in the same order, and what has used no threads can be forked.
os.environ["OMP_NUM_THREADS"] = "1"


@pytest.fixture(scope="session", autouse=True)
def servers():
    """Whatever processes were forked from ends with the tests."""
    yield
    forked.end_servers()


@pytest.fixture(scope="session")
def template() -> Path:
    """The root of this repository."""
    return Path(__file__).parent


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


@dataclass(frozen=True)
class Project:
    """A generated project with its package installed, on a machine without network and without a GPU."""

    folder: Path
    python: Path
    environment: dict[str, str]

    def run(self, *arguments: str | Path, **variables: str) -> subprocess.CompletedProcess[str]:
        """Run `python arguments...` in the project's folder; the finished process, whatever became of it."""
        command, environment = [*map(str, arguments)], self.environment | variables
        with tempfile.TemporaryDirectory() as folder:
            said, wrong = Path(folder, "stdout"), Path(folder, "stderr")
            code = forked.start(command, self.folder, environment, said, wrong, str(self.python)).wait()
            texts = (path.read_text(encoding="utf-8", errors="replace") for path in (said, wrong))
            return subprocess.CompletedProcess(command, code, *texts)

    def files(self) -> set[str]:
        """What lies in the project's folder, without Python's, pytest's and git's own."""
        files = (path.relative_to(self.folder) for path in self.folder.rglob("*") if path.is_file())
        aside = {"__pycache__", ".pytest_cache", ".git"}
        return {path.as_posix() for path in files if aside.isdisjoint(path.parts)}


@pytest.fixture(scope="session")
def install(environment, tmp_path_factory):
    """`install(folder, *requirements)`: a project in a virtual environment of its own, with the packages of this one.

    Editable, as quickly as that can be had; where there are `requirements`, pip installs these instead.
    """

    def run(folder: Path, *requirements: str | Path) -> Project:
        home = tmp_path_factory.mktemp("environment")
        venv.create(home / "venv", with_pip=False)
        python = share_packages(home / "venv", *([] if requirements else sources(folder)))
        if requirements:
            pip("--python", python, "install", *requirements)
        settings = ("MLFLOW_", "WANDB_", "MPL", "PYTHON", "PL_", "CUDA_")
        inherited = {name: value for name, value in environment.items() if not name.startswith(settings)}
        nowhere = "http://127.0.0.1:9"  # nothing listens there, so that every request is refused at once
        proxies = {name: nowhere for name in ("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY")}
        own = {"HOME": str(home), "USERPROFILE": str(home), "PYTHONUTF8": "1", "CUDA_VISIBLE_DEVICES": ""}
        return Project(folder, python, inherited | proxies | own)

    return run


def pip(*arguments: str | Path) -> None:
    """Run pip with what is there: without an index, and with builds in this environment."""
    alone = ("--no-index", "--no-deps", "--no-build-isolation", "--disable-pip-version-check")
    command = [sys.executable, "-m", "pip", *arguments, *alone]
    finished = subprocess.run(command, capture_output=True, encoding="utf-8")
    assert finished.returncode == 0, finished.stdout + finished.stderr


@pytest.fixture(scope="session")
def wheel(tmp_path_factory):
    """`wheel(folder)`: the wheel that is built of the distribution in `folder`."""

    def run(folder: Path) -> Path:
        place = tmp_path_factory.mktemp("wheel")
        pip("wheel", "--wheel-dir", place, folder)
        [path] = place.iterdir()
        return path

    return run


@pytest.fixture(scope="session")
def project(generate, install, tmp_path_factory) -> Project:
    """The project that the defaults give."""
    return install(generate(tmp_path_factory.mktemp("project")))


@pytest.fixture(scope="module")
def commands(generate, environment, tmp_path_factory):
    """`Commands` of a generated project that is the test module's own."""
    commands = Commands(generate(tmp_path_factory.mktemp("commands")), environment)
    yield commands
    commands.end()


@pytest.fixture
def no_leftovers(commands):
    """No process that a test has started outlives it."""
    yield
    commands.end()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-pages", action="store_true", help="write what examples print into docs/debug/*.md")
