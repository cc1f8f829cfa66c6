import io
import os
import pty
import re
import select
import sys
import time
from pathlib import Path

import pytest
from training_checklist.experiments import breakpoint as stopped_in

SMALL = ["data=mnist_sample", "trainer.limit_train_batches=2", "logger=csv", "callbacks=[checkpoint]"]
PROMPT = "(Pdb) "


class Terminal:
    """A command on a pseudo-terminal."""

    def __init__(self, folder: Path, *arguments: str | Path) -> None:
        self.process, self.descriptor = pty.fork()
        if self.process == 0:
            os.chdir(folder)
            environment = os.environ | {"COLUMNS": "200", "TERM": "dumb"}
            os.execve(sys.executable, [sys.executable, *arguments], environment)

    def read_until(self, text: str | None, seconds: float = 120) -> str:
        """Return what is printed until `text` appears, or until the command ends."""
        printed, deadline = "", time.monotonic() + seconds
        while time.monotonic() < deadline:
            if not select.select([self.descriptor], [], [], 1)[0]:
                continue
            try:
                part = os.read(self.descriptor, 4096).decode(errors="replace")
            except OSError:  # the other end is closed
                part = ""
            printed += part
            if not part or (text is not None and printed.endswith(text)):
                return printed
        raise TimeoutError(printed)

    def type(self, line: str) -> None:
        os.write(self.descriptor, line.encode() + b"\n")

    def code(self) -> int:
        return os.waitstatus_to_exitcode(os.waitpid(self.process, 0)[1])


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="no pseudo-terminals")
def test_prompt_has_batch_and_logits_and_goes_on(root, tmp_path):
    terminal = Terminal(tmp_path, root / "train.py", "+debug=breakpoint", *SMALL)
    terminal.read_until(PROMPT)
    terminal.type("p [tuple(t.shape) for t in batch], tuple(logits.shape), loss.ndim")
    assert "([(64, 1, 28, 28), (64,)], (64, 10), 0)" in terminal.read_until(PROMPT)
    terminal.type("c")
    rest = terminal.read_until(None)
    assert terminal.code() == 0, rest
    assert re.search(r"breakpoint +│ +passed", rest)
    assert "val/accuracy" in rest


def test_without_a_terminal_it_is_skipped_with_the_reason(train, monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.StringIO())
    report = (train("+debug=breakpoint") / "debug" / "report.md").read_text(encoding="utf-8")
    assert "| breakpoint | skipped |" in report
    assert "there is no terminal" in report


def test_several_processes_are_refused_with_the_command_to_use(train, capsys):
    with pytest.raises(SystemExit) as stopped:
        train("+debug=breakpoint", "trainer.devices=2")
    assert stopped.value.code == 1
    [line] = [line for line in capsys.readouterr().err.splitlines() if "needs one process" in line]
    command = line.partition("; use ")[2].split()
    assert command[-2:] == ["trainer.devices=1", "++trainer.strategy=auto"]
    assert "+debug=breakpoint" in command


@pytest.mark.parametrize("hook", ["setup", "configure_optimizers", "on_train_start", "training_step"])
def test_exception_of_the_project_stays_what_it_is(examine, net, hook, monkeypatch):
    def fail(self, *_, **__):
        raise KeyError("of the project")

    monkeypatch.setenv("PYTHONBREAKPOINT", "0")
    with pytest.raises(KeyError, match="of the project"):
        examine("breakpoint", type("Failing", (net,), {hook: fail})())


def test_names_at_the_prompt_are_those_of_the_step(examine, net, monkeypatch):
    seen = []
    monkeypatch.setenv("PYTHONBREAKPOINT", "0")
    monkeypatch.setattr(stopped_in, "prompt", lambda *names: seen.append(names))
    module = net()
    assert examine("breakpoint", module).status == "passed"
    [(batch, logits, loss, model, _)] = seen
    assert (len(batch[0]), tuple(logits.shape), loss.ndim, model is module) == (16, (16, 4), 0, True)
    assert not module.head._forward_hooks
