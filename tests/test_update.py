"""A generated project follows its template with cruft."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest


@pytest.fixture
def run(environment):
    """`run(folder, *command)`: the command's output; a failure is the test's."""

    def run(folder: Path, *command: str | Path) -> str:
        finished = subprocess.run(command, cwd=folder, env=environment, capture_output=True, encoding="utf-8")
        assert finished.returncode == 0, finished.stdout + finished.stderr
        return finished.stdout

    return run


@pytest.fixture
def repository(template, run, tmp_path) -> Path:
    """What cruft needs of the template, committed to a repository of its own."""
    repository = tmp_path / "template"
    caches = shutil.ignore_patterns("__pycache__", ".*_cache", ".venv")
    for folder in ("hooks", "{{cookiecutter.project}}"):
        shutil.copytree(template / folder, repository / folder, ignore=caches)
    shutil.copy(template / "cookiecutter.json", repository)
    run(repository, "git", "init", "--quiet")
    commit(run, repository)
    return repository


@pytest.fixture
def project(repository, run, tmp_path) -> Path:
    """A project that cruft created from `repository`, committed."""
    answers = '{"author": "José \\"Pepe\\" O\'Neill {x}", "logger": "csv", "ci": "none"}'
    run(tmp_path, *CRUFT, "create", repository, "--no-input", "--extra-context", answers)
    project = tmp_path / "digit-classifier"
    run(project, "git", "init", "--quiet")
    commit(run, project)
    return project


CRUFT = (sys.executable, "-m", "cruft")


def commit(run, folder: Path) -> None:
    run(folder, "git", "add", "--all")
    run(folder, "git", "commit", "--quiet", "--message", "a change")


def test_created_project_matches_its_template(project, run):
    run(project, *CRUFT, "check")
    assert run(project, *CRUFT, "diff") == ""


def test_update_brings_the_change_and_keeps_local_edits(repository, project, run):
    edited = project / "conf/train.yaml"
    mine = edited.read_text(encoding="utf-8") + "\n# mine\n"
    edited.write_text(mine, encoding="utf-8")
    commit(run, project)
    changed = repository / "{{cookiecutter.project}}/.gitignore"
    changed.write_text(changed.read_text(encoding="utf-8") + "\n# theirs\n", encoding="utf-8")
    commit(run, repository)

    run(project, *CRUFT, "update", "--skip-apply-ask")

    assert (project / ".gitignore").read_text(encoding="utf-8").endswith("\n# theirs\n")
    assert edited.read_text(encoding="utf-8") == mine
    status = run(project, "git", "status", "--porcelain").splitlines()
    assert sorted(line.split()[1] for line in status) == [".cruft.json", ".gitignore"]
    assert list(project.rglob("*.rej")) == []
    run(project, *CRUFT, "check")


@pytest.mark.slow
def test_update_replaces_the_packages_where_the_owner_has_changed_every_file_of_the_code(repository, project, run):
    mine = {}
    for path in (path for folder in ("src", "tests") for path in (project / folder).rglob("*.py")):
        mine[path] = "# mine\n" + path.read_text(encoding="utf-8")
        path.write_text(mine[path], encoding="utf-8")
    commit(run, project)
    packages = repository / "{{cookiecutter.project}}/packages"
    edited = packages / "training-config/src/training_config/check.py"
    edited.write_text("# theirs\n" + edited.read_text(encoding="utf-8"), encoding="utf-8")
    (packages / "training-runs/src/training_runs/added.py").write_text("NEW = True\n", encoding="utf-8")
    (packages / "training-checklist/src/training_checklist/experiments/anomaly.py").unlink()
    commit(run, repository)

    run(project, *CRUFT, "update", "--skip-apply-ask")

    assert contents(project / "packages") == contents(packages)
    assert {path: path.read_text(encoding="utf-8") for path in mine} == mine
    assert list(project.rglob("*.rej")) == []
    status = run(project, "git", "status", "--porcelain").splitlines()
    assert {line.split()[1].partition("/")[0] for line in status} == {".cruft.json", "packages"}
    run(project, *CRUFT, "check")


def contents(folder: Path) -> dict[str, bytes]:
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.slow
def test_update_brings_back_nothing_that_was_not_chosen(repository, project, run):
    workflow = repository / "{{cookiecutter.project}}/.github/workflows/test.yml"
    workflow.write_text(workflow.read_text(encoding="utf-8") + "\n# theirs\n", encoding="utf-8")
    commit(run, repository)

    run(project, *CRUFT, "update", "--skip-apply-ask")

    assert run(project, "git", "status", "--porcelain").split() == ["M", ".cruft.json"]


@pytest.mark.parametrize(
    ("answers", "sentence"),
    [
        ('{"project": "a/b"}', "project='a/b' does not name a folder and a distribution"),
        ('{"package": "torch"}', "package='torch' hides a package that the project may install"),
    ],
)
def test_bad_answer_is_refused_and_leaves_nothing_behind(repository, environment, tmp_path, answers, sentence):
    out_dir = tmp_path / "out"
    out_dir.mkdir()
    command = [*CRUFT, "create", repository, "--no-input", "--extra-context", answers]
    finished = subprocess.run(command, cwd=out_dir, env=environment, capture_output=True, encoding="utf-8")
    assert finished.returncode == 1
    assert sentence in " ".join(finished.stderr.split())  # cruft wraps its lines
    assert list(out_dir.iterdir()) == []
