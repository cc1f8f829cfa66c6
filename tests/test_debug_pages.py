"""Each page of docs/debug shows what its example prints.

python -m pytest tests/test_debug_pages.py --update-pages    writes the pages anew, where a check's words have changed
"""

import re
from pathlib import Path

import pytest
from clean import assert_clean
from documentation import blocks, follow

TEMPLATE = Path(__file__).parents[1]
PROJECT = TEMPLATE / "{{cookiecutter.project}}"
OPTIONS = TEMPLATE / "packages/training-checklist/src/training_checklist/conf/debug"
ITEMS = sorted(path.stem for path in OPTIONS.glob("*.yaml"))
FINDING = re.compile(r"^(\w+ (failed|warning): |\w+ needs one process)", re.MULTILINE)
TABLE = "\n┏"
QUICK = {"config", "fast_dev_run"}


@pytest.fixture(scope="module")
def examples(generate, install, tmp_path_factory):
    """The commands of each page, in a project that has the files of all of them."""
    project = install(generate(tmp_path_factory.mktemp("pages")))
    commands = {item: follow(page(project.folder, item), project.folder) for item in ITEMS}
    return project, commands


def page(folder: Path, item: str) -> str:
    return (folder / f"docs/debug/{item}.md").read_text(encoding="utf-8")


def findings(printed: str, item: str) -> str:
    """What a page shows of a command's output: the findings; of the checklist its table too."""
    said = printed[FINDING.search(printed).start() :]
    said = said.partition("\n  report: ")[0] if item == "checklist" else said.partition(TABLE)[0]
    return "\n".join(line.rstrip() for line in said.strip().splitlines()) + "\n"


def words(text: str) -> str:
    """The text without numbers, which differ between machines, and without what they do to line breaks and tables."""
    return " ".join(re.sub(r"[\d.]+(e[+-]?\d+)?|[│┃━─┏┓┗┛┡┩╇┳┴└┘]", " ", text).split())


def test_every_item_has_a_page_and_no_other_is_there():
    assert sorted(path.stem for path in (PROJECT / "docs/debug").glob("*.md")) == ITEMS


def test_code_of_the_examples_is_clean(examples):
    project, _ = examples
    assert_clean(project.folder)


@pytest.mark.parametrize(
    "item", [item if item in QUICK else pytest.param(item, marks=pytest.mark.slow) for item in ITEMS]
)
def test_example_fails_as_its_page_shows(examples, item, request):
    project, commands = examples
    [[_, *arguments]] = commands[item]
    finished = project.run(*arguments, COLUMNS="120")
    assert finished.returncode == 1, finished.stdout + finished.stderr
    shown = findings(finished.stdout + finished.stderr, item)
    if request.config.getoption("--update-pages"):
        template = PROJECT / f"docs/debug/{item}.md"
        text = template.read_text(encoding="utf-8")
        block = "```text\n" + shown.replace("digit_classifier", "{{ cookiecutter.package }}") + "```\n"
        template.write_text(re.sub(r"```text\n.*?```\n", lambda _: block, text, flags=re.DOTALL), encoding="utf-8")
        return
    [expected] = [block.text for block in blocks(page(project.folder, item)) if block.language == "text"]
    assert words(shown) == words(expected)
