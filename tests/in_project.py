"""The fixtures of a generated project's own tests, for tests of the libraries in this process.

A folder of such tests takes them over in its conftest.py: `globals().update(fixtures())`.
"""

import importlib.util
import os
import sys
from pathlib import Path

import pytest

TEMPLATE = Path(__file__).parents[1] / "{{cookiecutter.project}}"


def fixtures() -> dict[str, object]:
    """Return the project's fixtures by name. Its conftest.py holds no Jinja: what is asked for is where `root` is."""
    return {name: value for name, value in vars(own_conftest()).items() if is_fixture(value)} | {
        "root": root,
        "importable_in_processes": importable_in_processes,
    }


def is_fixture(value: object) -> bool:
    return isinstance(value, type(root))


def own_conftest():
    name = "conftest_of_the_project"
    if name not in sys.modules:
        spec = importlib.util.spec_from_file_location(name, TEMPLATE / "tests" / "conftest.py")
        sys.modules[name] = importlib.util.module_from_spec(spec)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(sys, "dont_write_bytecode", True)  # it would be copied into every generated project
            spec.loader.exec_module(sys.modules[name])
    return sys.modules[name]


@pytest.fixture(scope="session")
def root(project) -> Path:
    """The folder of the default project, whose package can be imported from here on."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(project.folder)  # for examples/
        patch.syspath_prepend(project.folder / "src")
        yield project.folder


@pytest.fixture(autouse=True)
def importable_in_processes(monkeypatch):
    """What a test starts can import what the test can."""
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(path for path in sys.path if path))
