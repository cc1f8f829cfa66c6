"""The project and the libraries: which way imports point, what each declares, and how much there is to read."""

import ast
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterable
from importlib.metadata import packages_distributions
from itertools import chain
from pathlib import Path

import pytest
from clean import assert_typed

TEMPLATE = Path(__file__).parents[1]
PACKAGES = sorted(path.parent for path in (TEMPLATE / "packages").glob("*/pyproject.toml"))
CONFIG, RUNS, CHECKLIST = "training_config", "training_runs", "training_checklist"
OWN = "digit_classifier"

# What a module may not import.
NOT_ABOVE = {
    CONFIG: {RUNS, CHECKLIST, OWN, "torch", "pytorch_lightning", "lightning"},
    RUNS: {CHECKLIST, OWN},
    CHECKLIST: {RUNS, OWN},
    OWN: {CHECKLIST},
}


def name(package: Path) -> str:
    return package.name


def tops(file: Path) -> set[str]:
    """The packages that a file imports, at its top or within functions; not its own by dots."""
    nodes = list(ast.walk(ast.parse(file.read_text(encoding="utf-8"), file)))
    names = {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}
    names |= {node.module for node in nodes if isinstance(node, ast.ImportFrom) and node.level == 0}
    return {name.partition(".")[0] for name in names}


def lines(folder: Path) -> int:
    return sum(len(file.read_text(encoding="utf-8").splitlines()) for file in folder.rglob("*.py"))


def pyproject(package: Path) -> dict:
    return tomllib.loads((package / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def distributions(requirements: Iterable[str]) -> set[str]:
    return {re.match(r"[\w.-]+", requirement)[0].lower() for requirement in requirements}


@pytest.fixture(scope="module")
def folder(project) -> Path:
    return project.folder


def test_packages_are_the_three_libraries():
    assert [package.name for package in PACKAGES] == ["training-checklist", "training-config", "training-runs"]


@pytest.mark.parametrize("package", PACKAGES, ids=name)
def test_package_is_ready_to_be_published(package):
    declared = pyproject(package)
    assert declared["name"] == package.name
    assert (package / "LICENSE").read_text(encoding="utf-8").strip()
    assert (package / declared["readme"]).read_text(encoding="utf-8").startswith(f"# {package.name}\n")
    changes = (package / "CHANGELOG.md").read_text(encoding="utf-8")
    [newest, *_] = re.findall(r"^## \[?(\d+\.\d+\.\d+)", changes, re.MULTILINE)
    assert newest == declared["version"]


@pytest.mark.parametrize("package", PACKAGES, ids=name)
def test_package_declares_what_it_imports_and_nothing_else(package):
    ours = {path.name.replace("-", "_") for path in PACKAGES}
    used = (
        set().union(*map(tops, (package / "src").rglob("*.py")))
        - sys.stdlib_module_names
        - {package.name.replace("-", "_")}
    )
    known = packages_distributions()
    needed = {module.replace("_", "-") if module in ours else known[module][0].lower() for module in used}
    declared = distributions(pyproject(package)["dependencies"])
    extras = distributions(chain(*pyproject(package).get("optional-dependencies", {}).values()))
    assert declared <= needed <= declared | extras


def test_packages_pass_the_type_checker(folder):
    assert_typed(folder, *(package / "src" for package in PACKAGES))


def test_what_is_taken_from_inside_hydra_is_listed_in_one_place():
    listed = (TEMPLATE / "packages/HYDRA.md").read_text(encoding="utf-8")
    inside = re.compile(r"^from (hydra\._internal|omegaconf\.(?:_\w+|grammar\w*))", re.MULTILINE)
    files = {
        path.relative_to(folder).as_posix()
        for folder in TEMPLATE.glob("packages/*/src")
        for path in folder.rglob("*.py")
        if inside.search(path.read_text(encoding="utf-8"))
    }
    assert files == {*re.findall(r"^\| `([\w/]+\.py)`", listed, re.MULTILINE)}


@pytest.mark.parametrize("module", [CONFIG, RUNS, CHECKLIST])
def test_imports_of_a_package_point_one_way(module):
    folder = TEMPLATE / "packages" / module.replace("_", "-") / "src"
    assert [file.name for file in folder.rglob("*.py") if tops(file) & NOT_ABOVE[module]] == []


def test_project_does_not_know_the_checklist(folder):
    files = [*(folder / "src").rglob("*.py"), *(folder / "tests").rglob("*.py"), *folder.glob("*.py")]
    assert [file.name for file in files if tops(file) & NOT_ABOVE[OWN]] == []


def test_tests_of_the_project_mirror_its_code(folder):
    code = {path.relative_to(folder / "src" / OWN).parent.as_posix() for path in (folder / "src").rglob("*.py")}
    tests = {path.relative_to(folder / "tests").parent.as_posix() for path in (folder / "tests").rglob("test_*.py")}
    assert tests == code


def test_project_is_small_enough_to_be_read(folder):
    """Outer bounds: src/ is read in half an hour, at 60 lines a minute."""
    committed = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    files = subprocess.run(committed, cwd=folder, capture_output=True, encoding="utf-8", check=True).stdout.splitlines()
    assert lines(folder / "src") <= 1800
    assert lines(folder) <= 4700
    assert len(files) <= 190


@pytest.mark.parametrize("script", ["train.py", "eval.py"])
def test_entry_point_reads_in_one_sitting(folder, script):
    assert len((folder / script).read_text(encoding="utf-8").splitlines()) <= 68
