"""A file is the project's own wherever the libraries lie: in this environment, another one, or the system's."""

import os
import signal
from pathlib import Path

import pytest
import torch
from training_checklist.engines import own_code


@pytest.mark.parametrize(
    "file",
    [
        "/other/venv/lib/python3.12/site-packages/torch/nn/modules/module.py",
        "/usr/lib/python3/dist-packages/yaml/__init__.py",
        os.__file__,
        torch.__file__,
        "<string>",
        "<frozen runpy>",
    ],
)
def test_libraries_are_installed_and_nobodys_own(file):
    assert own_code.is_installed(file)
    assert not own_code.is_own(file)


def test_project_is_own_and_the_checks_are_neither():
    assert own_code.is_own(__file__)
    assert own_code.is_own("/projects/nets/model.py")
    assert not own_code.is_own(own_code.__file__)
    assert not own_code.is_installed(own_code.__file__)


def test_what_the_handler_of_a_signal_raises_is_no_tool_error():
    def stop(number, frame):
        raise SystemExit(128 + number)

    def within_the_checks():
        namespace = {"raise_signal": signal.raise_signal, "number": signal.SIGUSR1}
        exec(compile("raise_signal(number)", own_code.__file__, "exec"), namespace)

    former = signal.signal(signal.SIGUSR1, stop)
    try:
        with pytest.raises(SystemExit) as stopped:
            within_the_checks()
        assert not own_code.is_tool_error(stopped.value)
    finally:
        signal.signal(signal.SIGUSR1, former)
    assert own_code.is_tool_error(stopped.value)


def test_path_is_short_where_it_is_known(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    assert own_code.shorten(tmp_path / "src" / "net.py") == str(Path("src", "net.py"))
    assert own_code.shorten(torch.__file__) == str(Path("torch", "__init__.py"))
    assert own_code.shorten(os.__file__) == "os.py"
    assert own_code.shorten(__file__) == __file__
