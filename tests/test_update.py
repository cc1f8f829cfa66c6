"""A generated project follows its template with cruft."""

import os
import pydoc
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from documentation import blocks


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
def project(repository, run) -> Path:
    """A project that cruft created from `repository`, committed."""
    return create(run, repository, '{"author": "José \\"Pepe\\" O\'Neill {x}", "logger": "csv", "ci": "none"}')


def create(run, repository: Path, answers: str = "{}") -> Path:
    run(repository.parent, *CRUFT, "create", repository, "--no-input", "--extra-context", answers)
    project = repository.parent / "digit-classifier"
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
def test_update_replaces_the_wheels_where_the_owner_has_changed_every_file_of_the_code(repository, project, run):
    mine = {}
    for path in (path for folder in ("src", "tests") for path in (project / folder).rglob("*.py")):
        mine[path] = "# mine\n" + path.read_text(encoding="utf-8")
        path.write_text(mine[path], encoding="utf-8")
    replace(project / "pyproject.toml", r"\]\n\n\[project.opt", '  "einops>=0.8",\n]\n\n[project.opt')
    commit(run, project)
    wheels = repository / "{{cookiecutter.project}}/wheels"
    for wheel in wheels.iterdir():
        (wheels / re.sub(r"\+src\w+", "+src0123456789", wheel.name)).write_bytes(wheel.read_bytes()[::-1])
        wheel.unlink()
    replace(repository / "{{cookiecutter.project}}/pyproject.toml", r"\+src\w+", "+src0123456789")
    commit(run, repository)

    run(project, *CRUFT, "update", "--skip-apply-ask")

    assert contents(project / "wheels") == contents(wheels)
    assert (project / "pyproject.toml").read_text(encoding="utf-8").count("==0.2.0+src0123456789") == len(
        contents(wheels)
    )
    assert '"einops>=0.8",\n]' in (project / "pyproject.toml").read_text(encoding="utf-8")
    assert {path: path.read_text(encoding="utf-8") for path in mine} == mine
    assert list(project.rglob("*.rej")) == []
    status = run(project, "git", "status", "--porcelain").splitlines()
    assert {line.split()[1].partition("/")[0] for line in status} == {".cruft.json", "wheels", "pyproject.toml"}
    run(project, *CRUFT, "check")


def contents(folder: Path) -> dict[str, bytes]:
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_wheels_are_committed_where_a_user_ignores_wheels_everywhere(project, run, tmp_path):
    (tmp_path / "ignored").write_text("wheels/\n*.whl\n", encoding="utf-8")
    run(project, "git", "rm", "-r", "--quiet", "--cached", "wheels")
    run(project, "git", "-c", f"core.excludesFile={(tmp_path / 'ignored').as_posix()}", "add", "--all")
    assert run(project, "git", "status", "--porcelain") == ""


@pytest.fixture
def old_project(repository, template, run) -> Path:
    """A project from the time when a library's source lay in it; `repository` has gone on since then."""
    library, house = "packages/training-config", repository / "{{cookiecutter.project}}"
    shutil.copytree(template / library, house / library, ignore=shutil.ignore_patterns("__pycache__", "tests"))
    shutil.rmtree(house / "wheels")
    replace(house / "pyproject.toml", r'  "training-.*==.*",\n', "")
    replace(house / "pyproject.toml", r"packages = \[", f'packages = ["{library}/src/training_config", ')
    replace(repository / "cookiecutter.json", r"wheels/\*", "packages/*")
    commit(run, repository)
    project = create(run, repository)
    run(repository, "git", "revert", "--no-edit", "HEAD")
    return project


def replace(path: Path, pattern: str, text: str) -> None:
    changed, count = re.subn(pattern, text, path.read_text(encoding="utf-8"))
    assert count > 0, f"{path} has no {pattern}"
    path.write_text(changed, encoding="utf-8")


def test_update_removes_the_sources_that_an_old_project_carries(repository, old_project, run):
    run(old_project, *CRUFT, "update", "--skip-apply-ask")

    assert not (old_project / "packages").exists()
    assert contents(old_project / "wheels") == contents(repository / "{{cookiecutter.project}}/wheels")
    commit(run, old_project)
    assert run(old_project, *CRUFT, "diff") == ""


@pytest.mark.slow
def test_steps_of_the_changelog_lose_nothing_that_an_owner_has_changed_in_packages(
    repository, old_project, template, run, environment
):
    library = Path("packages/training-config")
    edited, added = library / "src/training_config/check.py", library / "src/training_config/mine.py"
    theirs = (old_project / edited).read_text(encoding="utf-8")
    (old_project / edited).write_text(theirs + "MINE = True\n", encoding="utf-8")
    (old_project / added).write_text("MINE = True\n", encoding="utf-8")
    (old_project / library / "README.md").unlink()
    pyproject = old_project / "pyproject.toml"
    pyproject.write_text(pyproject.read_text(encoding="utf-8") + "# mine\n", encoding="utf-8")
    commit(run, old_project)
    changelog = (template / "CHANGELOG.md").read_text(encoding="utf-8")
    listed = re.sub("^   ", "", changelog, flags=re.MULTILINE)
    before, after = (block.text for block in blocks(listed) if "mine.patch" in block.text)

    shell(before, old_project, environment)
    run(old_project, *CRUFT, "update", "--skip-apply-ask")

    assert [*contents(old_project / "packages")] == [added.relative_to("packages").as_posix()]
    assert pyproject.read_text(encoding="utf-8").endswith("# mine\n")
    assert contents(old_project / "wheels") == contents(repository / "{{cookiecutter.project}}/wheels")
    assert list(old_project.rglob("*.rej")) == []

    # The template has gone on in the same file.
    shutil.copytree(template / library, repository / library, ignore=shutil.ignore_patterns("__pycache__"))
    (repository / edited).write_text("# new\n" + theirs, encoding="utf-8")
    commit(run, repository)
    shell(after, repository, environment)
    assert (repository / edited).read_text(encoding="utf-8") == "# new\n" + theirs + "MINE = True\n"


# What configs of runs name that were saved while the source lay in the project, without its own package.
SAVED = """
training_runs.callbacks.epoch_lines.EpochLines
training_runs.callbacks.learning_curves.LearningCurves
training_runs.callbacks.model_summary.ModelSummary
training_runs.callbacks.progress_bar.ProgressBar
training_runs.callbacks.step_monitor.StepMonitor
training_runs.checkpoints.checkpoint_io.AtomicCheckpointIO
training_runs.checkpoints.last_checkpoint.LastCheckpoint
training_runs.loggers.CSVLogger
training_runs.loggers.TensorBoardLogger
training_runs.records.redaction.Redaction
training_runs.reports.report.RunReport
training_runs.start.output_directory.OutputDirectory
training_runs.sweeps.sweep_summary.SweepSummary
"""


@pytest.mark.parametrize("name", SAVED.split())
def test_name_in_a_saved_config_is_still_there(name):
    assert callable(pydoc.locate(name))


def shell(block: str, folder: Path, environment: dict[str, str]) -> None:
    """Type the commands of a block, in `folder`."""
    variables = environment | {"PATH": os.pathsep.join((str(Path(sys.executable).parent), environment["PATH"]))}
    for line in block.splitlines():
        subprocess.run(line, shell=True, cwd=folder, env=variables, check=True)


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
