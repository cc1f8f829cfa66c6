"""What docs/development.md says of removing and renaming: the command as it stands there, and a whole project."""

import re
import subprocess

import pytest
from clean import assert_clean, assert_typed
from documentation import blocks

SHORT = ("data=mnist_sample", "trainer=cpu", "++trainer.limit_train_batches=2", "figures=false")


@pytest.fixture
def without(generate, install, tmp_path):
    """`without(what)`: the project after the page's command that removes `what`."""

    def run(what: str):
        folder = generate(tmp_path / "generated")
        follow(folder, what)
        return install(folder)

    return run


def follow(folder, what: str) -> None:
    """Do what the one command of the page does that names `what`."""
    page = (folder / "docs/development.md").read_text(encoding="utf-8")
    lines = [line for block in blocks(page) for line in block.text.splitlines()]
    [command] = [line for line in lines if line.startswith(("rm ", "old=")) and what in line]
    subprocess.run(["bash", "-c", command], cwd=folder, check=True)


@pytest.mark.slow
def test_project_without_examples_is_whole(without):
    project = without("examples")
    assert_clean(project.folder)
    assert_typed(project.folder)
    finished = project.run("-m", "pytest", "-q", "--tb=short")
    assert finished.returncode == 0, finished.stdout[-8000:]


def test_project_without_korean_pages_has_no_word_and_no_link_of_them(without):
    folder = without("docs/ko").folder
    for page in [folder / "README.md", *folder.glob("docs/*.md")]:
        text = page.read_text(encoding="utf-8")
        assert re.findall(r"\]\((?!http)[^)]*\bko[./][^)]*\)", text) == []
        links = re.findall(r"\]\(([^)#:]+)\)", text)
        assert [link for link in links if not (page.parent / link).exists()] == []


def test_package_of_another_name_opens_old_runs_and_goes_on_with_them(generate, install, tmp_path):
    folder = generate(tmp_path / "generated")
    before = install(folder)
    finished = before.run("train.py", *SHORT, "trainer.max_epochs=1")
    assert finished.returncode == 0, finished.stderr
    subprocess.run(["git", "add", "-A"], cwd=folder, check=True)
    follow(folder, "new_name")
    after = install(folder)
    for command in (("eval.py", "run=last"), ("train.py", "resume=last", "trainer.max_epochs=2")):
        finished = after.run(*command)
        assert finished.returncode == 0, finished.stderr
    left = subprocess.run(["git", "grep", "-lw", "digit_classifier"], cwd=folder, capture_output=True, encoding="utf-8")
    assert left.stdout == ""
