"""The generated project does what its documentation says, typed as a user types it."""

import csv
import dataclasses
import gzip
import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml
from PIL import Image

# One short epoch on the bundled sample.
SHORT = ("data=mnist_sample", "trainer.max_epochs=1", "+trainer.limit_train_batches=4", "+trainer.limit_val_batches=1")


def succeeded(finished: subprocess.CompletedProcess[str]) -> str:
    """What a command said that went well."""
    assert finished.returncode == 0, finished.stdout + finished.stderr
    return finished.stdout


@pytest.fixture(scope="module")
def trained(project):
    """What `python train.py` printed, and the files that it wrote in the project."""
    before = project.files()
    printed = succeeded(project.run("train.py", "trainer.max_epochs=1"))
    return printed, project.files() - before


@pytest.fixture
def elsewhere(project, tmp_path):
    """The same project in a folder of this test, so that no other test sees its runs."""
    copy = tmp_path / "project"
    shutil.copytree(project.folder, copy, ignore=shutil.ignore_patterns("outputs", "multirun", ".git"))
    return dataclasses.replace(project, folder=copy)


def at_home(project) -> list[str]:
    """What lies in the user's home, without the environment and the caches that libraries share between runs."""
    home = Path(project.environment["HOME"])
    files = (path.relative_to(home) for path in home.rglob("*") if path.is_file())
    return [path.as_posix() for path in files if path.parts[0] not in ("venv", ".cache")]


def runs(project, root: str) -> list[Path]:
    return sorted(path.parent for path in (project.folder / root).glob("**/run.json"))


def record(run: Path) -> dict:
    return json.loads((run / "run.json").read_text(encoding="utf-8"))


def test_without_data_and_network_the_sample_is_trained_on_and_tested(project, trained):
    [run] = runs(project, "outputs")
    assert record(run)["state"] == "finished"
    assert record(run)["data"] == "mnist_sample (instead of MNIST)"
    assert {"train/loss", "val/accuracy", "test/accuracy"} <= record(run)["metrics"].keys()


def test_summary_names_the_run_and_the_commands_to_go_on_with(project, trained):
    printed, _ = trained
    run = runs(project, "outputs")[0].relative_to(project.folder).as_posix()
    assert re.search(rf"^ +run +{run}$", printed, re.MULTILINE)
    assert re.search(rf"^ +evaluate +python eval\.py run={run}$", printed, re.MULTILINE)
    assert re.search(r"^ +look +tensorboard --logdir outputs$", printed, re.MULTILINE)
    assert re.search(r"^ +test/accuracy +0\.\d{4}$", printed, re.MULTILINE)


def test_nothing_is_written_outside_the_directory_of_the_run(project, trained):
    _, written = trained
    [run] = runs(project, "outputs")
    assert {path for path in written if not path.startswith(run.relative_to(project.folder).as_posix() + "/")} == set()
    top = {path.relative_to(run).parts[0] for path in run.rglob("*")}
    assert top == {".hydra", "checkpoints", "csv", "figures", "report.html", "run.json", "tensorboard", "train.log"}
    assert at_home(project) == []


def test_last_run_is_evaluated_in_its_own_directory(project, trained):
    before = project.files()
    printed = succeeded(project.run("eval.py", "run=last"))
    [run] = runs(project, "outputs")
    output = run.relative_to(project.folder).as_posix() + "/eval/best"
    figures = {
        f"{name}.{kind}" for name in ("calibration", "confusion_matrix", "worst_mistakes") for kind in ("png", "svg")
    }
    names = {"metrics.json", "predictions.csv", *figures}
    assert project.files() - before == {f"{output}/{name}" for name in names}
    assert all(f"{output}/{name}" in printed for name in names)


def test_images_in_a_folder_are_classified(project, trained, tmp_path):
    sample = next(project.folder.glob("src/*/data/sample/t10k-images-idx3-ubyte.gz"))
    pixels = gzip.decompress(sample.read_bytes())[16 : 16 + 2 * 28 * 28]
    for index in range(2):
        image = Image.frombytes("L", (28, 28), pixels[index * 784 : (index + 1) * 784])
        image.resize((200, 200)).save(tmp_path / f"digit {index}.png")
    printed = succeeded(project.run("eval.py", f"predict='{tmp_path.as_posix()}'"))
    [table] = project.folder.glob("outputs/**/eval/best/predictions_*.csv")
    with table.open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert [row["sample"] for row in rows] == ["digit 0.png", "digit 1.png"]
    for row in rows:
        assert re.search(rf"^ +{row['sample']} +{row['prediction']}  \(\d+\.\d%\)$", printed, re.MULTILINE)


def test_sweep_gives_every_combination_a_numbered_directory(elsewhere):
    succeeded(elsewhere.run("train.py", "-m", *SHORT, "optimizer=adam,sgd", "optimizer.lr=0.01,0.001"))
    jobs = runs(elsewhere, "multirun")
    assert [job.name for job in jobs] == ["0", "1", "2", "3"]
    assert {job.parent for job in jobs} == {jobs[0].parent}
    chosen = [[text for text in record(job)["overrides"] if text.startswith("optimizer")] for job in jobs]
    assert chosen == [[f"optimizer={name}", f"optimizer.lr={lr}"] for name in ("adam", "sgd") for lr in (0.01, 0.001)]
    assert [record(job)["state"] for job in jobs] == ["finished"] * 4


@pytest.mark.slow
@pytest.mark.parametrize(
    ("key", "targets"),
    [
        ("criterion._target_", ["torch.nn.CrossEntropyLoss", "torch.nn.MSELoss"]),
        ("optimizer._target_", ["torch.optim.SGD", "torch.optim.Adam"]),
    ],
)
def test_targets_are_swept_over(elsewhere, key, targets):
    succeeded(elsewhere.run("train.py", "-m", *SHORT, f"{key}={','.join(targets)}"))
    jobs = runs(elsewhere, "multirun")
    assert [record(job)["state"] for job in jobs] == ["finished"] * 2
    group, name = key.split(".")
    configs = [yaml.safe_load((job / ".hydra/config.yaml").read_text(encoding="utf-8")) for job in jobs]
    assert [config[group][name] for config in configs] == targets
    assert record(jobs[0])["metrics"]["train/loss"] != record(jobs[1])["metrics"]["train/loss"]


def test_experiment_shows_its_config_and_trains(elsewhere):
    printed = succeeded(elsewhere.run("train.py", "+experiment=baseline", "print_config=true", *SHORT))
    shown = "\n".join(line.rstrip() for line in printed.splitlines())
    assert "\noptimizer:\n  _target_: torch.optim.AdamW\n" in shown
    assert "\n  label_smoothing: 0.1\n" in shown
    [run] = runs(elsewhere, "outputs")
    assert record(run)["state"] == "finished"


@pytest.fixture(scope="module")
def own_tests(generate, install, tmp_path_factory):
    """The finished test run of a project of its own, and the files that it wrote there."""
    project = install(generate(tmp_path_factory.mktemp("tested")))
    before = project.files()
    return project.run("-m", "pytest", "-q", "--tb=short"), project.files() - before


def test_own_tests_of_the_project_pass(own_tests):
    finished, _ = own_tests
    assert finished.returncode == 0, finished.stdout[-8000:]


def test_own_tests_of_the_project_write_nothing_into_it(own_tests):
    _, written = own_tests
    assert written == set()


@pytest.mark.slow
@pytest.mark.parametrize(("logger", "offline"), [("wandb", ["logger.wandb.offline=true"]), ("mlflow", [])])
def test_logger_that_was_chosen_writes_into_the_run(generate, install, tmp_path, logger, offline):
    project = install(generate(tmp_path / "out", logger=logger))
    before = project.files()
    succeeded(project.run("train.py", *SHORT, *offline))
    [run] = runs(project, "outputs")
    outside = run.relative_to(project.folder).as_posix() + "/"
    assert {path for path in project.files() - before if not path.startswith(outside)} == set()
    assert any(logger in path.name for path in run.iterdir())
    assert at_home(project) == []
