"""The recipes of docs/recipes.md, followed to the letter in a generated project: new files only, all together."""

import json
from importlib.util import find_spec

import numpy as np
import pytest
from clean import assert_clean, assert_typed
from documentation import follow
from PIL import Image

# Enough to see that it runs; the images are CIFAR-10's in shape alone.
SHORT = ("data=cifar10", "data.val_size=20", "trainer.max_epochs=1", "++trainer.limit_train_batches=2")


def write_cifar10(folder, images_a_file: int) -> None:
    """Write random images in the format of CIFAR-10's binary version: a byte of label, 3 x 32 x 32 of pixels."""
    folder.mkdir(parents=True)
    draw = np.random.default_rng(0)
    for name in (*(f"data_batch_{number}.bin" for number in range(1, 6)), "test_batch.bin"):
        labels = np.arange(images_a_file, dtype=np.uint8)[:, None] % 10
        pixels = draw.integers(0, 256, (images_a_file, 3072), dtype=np.uint8)
        np.concatenate([labels, pixels], axis=1).tofile(folder / name)


def write_folders(folder, each: int) -> None:
    """Write images of two classes, dark and bright."""
    for name, grey in (("bright", 160), ("dark", 40)):
        (folder / name).mkdir(parents=True)
        for number in range(each):
            Image.new("RGB", (60, 40 + number), (grey, grey + number, grey)).save(folder / name / f"{number}.png")


def needs_what_is_missing(words: list[str]) -> bool:
    """Whether a command reads shards, and the package that does is not installed."""
    return bool({"examples.shards", "data=shards"} & set(words)) and find_spec("webdataset") is None


@pytest.fixture(scope="module")
def followed(generate, install, tmp_path_factory):
    """A project in which every recipe has been followed, and the commands that the recipes give."""
    project = install(generate(tmp_path_factory.mktemp("recipes")))
    commands = follow((project.folder / "docs/recipes.md").read_text(encoding="utf-8"), project.folder)
    write_cifar10(project.folder / "data/cifar-10-batches-bin", images_a_file=40)
    write_folders(project.folder / "my_images", each=20)
    for part in ("train", "val", "test"):
        write_folders(project.folder / "my_photos" / part, each=20)
    return project, commands


def last_record(project) -> dict:
    newest = max(project.folder.glob("outputs/*/*/*/run.json"), key=lambda path: path.stat().st_mtime)
    return json.loads(newest.read_text(encoding="utf-8"))


@pytest.mark.slow
def test_each_recipe_ends_in_a_command_that_works(followed):
    project, commands = followed
    assert len(commands) == 15
    for _, script, *overrides in [words for words in commands if not needs_what_is_missing(words)]:
        first = next((text.partition("=")[0] for text in overrides if text.startswith(("data=", "+experiment="))), "")
        short = SHORT[{"": 0, "data": 1, "+experiment": 2}[first] :]  # an experiment has data of its own
        short = () if script == "-m" else (*SHORT[2:], "data.epoch_size=64") if "data=shards" in overrides else short
        finished = project.run(script, *short, *overrides)
        assert finished.returncode == 0, finished.stdout + finished.stderr


@pytest.mark.slow
def test_all_recipes_work_together(followed):
    project, _ = followed
    finished = project.run("train.py", *SHORT, "model=resnet18", "criterion=focal", "optimizer=lion")
    assert finished.returncode == 0, finished.stdout + finished.stderr
    record = last_record(project)
    assert (record["state"], record["data"]) == ("finished", "CIFAR10")
    assert "test/accuracy" in record["metrics"]
    finished = project.run("eval.py", "run=last")
    assert finished.returncode == 0, finished.stdout + finished.stderr


@pytest.mark.slow
def test_added_check_fails_with_the_place_where_its_threshold_is_crossed(followed):
    project, _ = followed
    finished = project.run("train.py", *SHORT, "+debug=dead_units", "++checks.dead_units.max_dead=-1")
    assert finished.returncode == 1
    assert "  where net.stage1.1\n" in finished.stdout


@pytest.mark.slow
def test_added_check_can_be_an_item_of_the_checklist(followed):
    project, _ = followed
    items = ("hydra.callbacks.debug.only=[dead_units]", "+checks.checklist.items.dead_units=fast_dev_run")
    finished = project.run("train.py", *SHORT, "+debug=checklist", *items)
    assert finished.returncode == 0, finished.stdout + finished.stderr
    assert "dead_units" in finished.stdout


@pytest.mark.slow
def test_added_configs_are_found_by_the_projects_own_tests_and_pass_them(followed):
    project, _ = followed
    finished = project.run("-m", "pytest", "-v", "tests/test_configs.py")
    assert finished.returncode == 0, finished.stdout[-4000:]
    for name in (
        "data/cifar10",
        "model/cnn_f1",
        "model/resnet18",
        "criterion/focal",
        "optimizer/lion",
        "debug/dead_units",
        "experiment/language_model",
        "experiment/my_images",
    ):
        assert f"[{name}] PASSED" in finished.stdout


@pytest.mark.slow
def test_added_code_is_clean_and_typed(followed):
    project, _ = followed
    assert_clean(project.folder)
    assert_typed(project.folder)
