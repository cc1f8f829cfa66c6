"""What docs/development.md says of removing: the command as it stands there, and a project that is whole after it."""

import re
import subprocess

import pytest
from clean import assert_clean, assert_typed
from documentation import blocks


@pytest.fixture
def without(generate, install, tmp_path):
    """`without(what)`: the project after the page's command that removes `what`."""

    def run(what: str):
        folder = generate(tmp_path / "generated")
        page = (folder / "docs/development.md").read_text(encoding="utf-8")
        lines = [line for block in blocks(page) for line in block.text.splitlines()]
        [command] = [line for line in lines if line.startswith("rm ") and what in line]
        subprocess.run(["bash", "-c", command], cwd=folder, check=True)
        return install(folder)

    return run


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
