"""A project without the checklist: its line in pyproject.toml, its wheel and conf/debug are gone, all else works."""

import shutil

import pytest
from clean import assert_clean, assert_typed

SHORT = ("data=mnist_sample", "trainer=cpu", "trainer.max_epochs=1", "++trainer.limit_train_batches=2")


@pytest.fixture(scope="module")
def project(generate, install, tmp_path_factory):
    """The default project after its owner has deleted the checklist."""
    folder = generate(tmp_path_factory.mktemp("deleted"))
    shutil.rmtree(folder / "conf/debug")
    [checklist] = folder.glob("wheels/training_checklist-*.whl")
    checklist.unlink()
    pyproject = folder / "pyproject.toml"
    lines = pyproject.read_text(encoding="utf-8").splitlines(keepends=True)
    pyproject.write_text("".join(line for line in lines if "training-checklist==" not in line), encoding="utf-8")
    project = install(folder, "--editable", folder, *folder.glob("wheels/*.whl"))
    assert project.run("-c", "import training_checklist").returncode == 1
    return project


@pytest.mark.slow
def test_own_tests_pass_and_write_nothing(project):
    before = project.files()
    finished = project.run("-m", "pytest", "-q", "--tb=short")
    assert finished.returncode == 0, finished.stdout[-8000:]
    assert project.files() == before


def test_code_is_clean_and_typed(project):
    assert_clean(project.folder)
    assert_typed(project.folder)


def test_training_and_evaluation_work_and_say_nothing_of_what_is_missing(project):
    for command in (("train.py", *SHORT), ("eval.py", "run=last"), ("train.py", "--help")):
        finished = project.run(*command)
        assert finished.returncode == 0, finished.stdout + finished.stderr
        lines = (finished.stdout + finished.stderr).splitlines()
        missing = ("checklist", "debug", "not available", "search path")
        assert [line for line in lines if any(word in line for word in missing)] == []


def test_failing_run_is_told_in_one_piece_and_has_a_record(project):
    finished = project.run("train.py", *SHORT, "model.net.dropout=abc")
    assert finished.returncode == 1
    assert "model.net.dropout=abc must be a number" in finished.stderr
    assert "Traceback" not in finished.stderr


@pytest.mark.slow
def test_sweep_of_two_jobs_has_a_report(project):
    finished = project.run("train.py", "-m", *SHORT, "seed=1,2")
    assert finished.returncode == 0, finished.stdout + finished.stderr
    [sweep] = project.folder.glob("multirun/*/*/*")
    assert (sweep / "summary.csv").is_file()
    for name in ("report.html", "0/report.html", "1/report.html"):
        assert (sweep / name).is_file()
