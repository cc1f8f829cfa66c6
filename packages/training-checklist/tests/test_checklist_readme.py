"""The README of training-checklist, as somebody follows it who has nothing else of this template."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

README = (Path(__file__).parents[1] / "README.md").read_text(encoding="utf-8")
CONF = Path(__file__).parents[1] / "src/training_checklist/conf/debug"
FOREIGN = Path(__file__).parents[3] / "tests/foreign_project"


def test_table_of_items_says_what_their_configs_say():
    rows = dict(re.findall(r"^\| `(\w+)` \| (.*\?.*) \|$", README, flags=re.MULTILINE))
    assert rows == {path.stem: path.read_text(encoding="utf-8").splitlines()[1][2:] for path in CONF.glob("*.yaml")}


def block(language: str, word: str) -> str:
    [found] = [text for text in re.findall(rf"```{language}\n(.*?)```", README, flags=re.DOTALL) if word in text]
    return found


@pytest.fixture
def run(tmp_path):
    """A command in a foreign project that has the README's own item."""
    folder = tmp_path / "project"
    shutil.copytree(FOREIGN, folder)
    (folder / "loss_range.py").write_text(block("python", "LossRange"), encoding="utf-8")
    (folder / "conf/debug").mkdir(exist_ok=True)
    (folder / "conf/debug/loss_range.yaml").write_text(block("yaml", "LossRange"), encoding="utf-8")
    (folder / "pyproject.toml").write_text(block("toml", "group"), encoding="utf-8")
    paths = [str(folder), *(path for path in sys.path if path)]

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        environment = os.environ | {"PYTHONPATH": os.pathsep.join(paths), "COLUMNS": "120"}
        command = [sys.executable, "train.py", *arguments]
        return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=300)

    run.folder = folder
    return run


@pytest.mark.slow
def test_own_item_gives_a_verdict(run):
    assert run("+debug=loss_range").returncode == 0
    failed = run("+debug=loss_range", "++checks.loss_range.max_loss=0")
    assert failed.returncode == 1
    assert "loss_range failed: a loss of " in failed.stdout
    assert "mine/loss-in-range" in failed.stdout


@pytest.mark.slow
def test_own_rule_judges_what_an_item_has_recorded(run):
    (run.folder / "first_loss.py").write_text(block("python", "first-loss-in-range"), encoding="utf-8")
    named = "++checks.rules={first_loss: first_loss}"
    assert run("+debug=fast_dev_run", named).returncode == 0
    failed = run("+debug=fast_dev_run", named, "++checks.fast_dev_run.max_first_loss=0")
    assert failed.returncode == 1
    assert "mine/first-loss-in-range" in failed.stdout


@pytest.mark.slow
def test_settings_add_an_item_to_the_checklist_and_leave_another_out(run):
    settings = yaml.safe_load(block("yaml", "leave_out"))
    settings["checks"]["checklist"] |= yaml.safe_load("{items: {loss_range: fast_dev_run}}")
    main = run.folder / "conf/train.yaml"
    main.write_text(main.read_text(encoding="utf-8") + yaml.safe_dump(settings), encoding="utf-8")
    finished = run("+debug=checklist", "hydra.callbacks.debug.only=[fast_dev_run,loss_range,distributed]")
    assert finished.returncode == 0, finished.stdout + finished.stderr
    assert re.search(r"loss_range +passed", finished.stdout)
    assert re.search(r"distributed +skipped", finished.stdout)
    assert "this project trains on one device" in finished.stdout
