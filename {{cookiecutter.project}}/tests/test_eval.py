"""python eval.py as a user meets it: what it finds out about a run, and where it puts that."""

import csv
import json
import shutil
from pathlib import Path

import pytest
from PIL import Image, ImageOps
from training_runs.records.runs import read_record

from {{ cookiecutter.package }}.data.mnist import read_sample

FIGURES = [f"{name}.png" for name in ("calibration", "confusion_matrix", "worst_mistakes")]
WRITTEN = {"metrics.json", "predictions.csv", *FIGURES, *(name.replace(".png", ".svg") for name in FIGURES)}


@pytest.fixture(scope="module")
def tested(trained, evaluate_in, tmp_path_factory) -> Path:
    """The directory of a run that was moved elsewhere after training, and tested there with its own batch size."""
    run = tmp_path_factory.mktemp("moved") / "run"
    shutil.copytree(trained, run)
    evaluate_in(run.parent, f"run={run.as_posix()}", "batch_size=64")
    return run


def rows(table: Path) -> list[dict[str, str]]:
    with table.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def test_metrics_are_those_that_training_recorded(tested):
    metrics = json.loads((tested / "eval/best/metrics.json").read_text(encoding="utf-8"))["metrics"]
    recorded = read_record(tested)["metrics"]
    assert metrics == {name: value for name, value in recorded.items() if name.startswith("test/")}


def test_everything_written_lies_in_the_directory_of_the_run(tested):
    new = {path for path in tested.parent.rglob("*") if path.is_file() and "eval" in path.relative_to(tested).parts}
    assert {path.relative_to(tested / "eval/best").as_posix() for path in new} == WRITTEN
    assert [path.name for path in tested.parent.iterdir()] == ["run"]


def test_predictions_hold_every_test_image_with_its_label(tested):
    table = rows(tested / "eval/best/predictions.csv")
    _, labels = read_sample(train=False)
    assert [row["sample"] for row in table] == [str(index) for index in range(1000)]
    assert [int(row["label"]) for row in table] == labels.tolist()


def test_predictions_are_the_most_probable_classes_of_probabilities_that_sum_to_one(tested):
    for row in rows(tested / "eval/best/predictions.csv"):
        probabilities = [float(row[f"p({digit})"]) for digit in range(10)]
        assert sum(probabilities) == pytest.approx(1, abs=1e-5)
        assert row["prediction"] == str(probabilities.index(max(probabilities)))
        assert float(row["confidence"]) == max(probabilities)


def test_accuracy_of_the_predictions_is_the_one_that_was_tested(tested):
    table = rows(tested / "eval/best/predictions.csv")
    correct = sum(row["label"] == row["prediction"] for row in table)
    assert correct / len(table) == pytest.approx(read_record(tested)["metrics"]["test/accuracy"])


@pytest.mark.parametrize("name", FIGURES)
def test_figures_are_images(tested, name):
    with Image.open(tested / "eval/best" / name) as image:
        image.load()
        assert min(image.size) > 300


def test_last_checkpoint_is_tested_on_request(tested, evaluate):
    evaluate(f"run={tested.as_posix()}", "ckpt=last")
    assert {path.name for path in (tested / "eval/last").iterdir()} == WRITTEN
    shutil.rmtree(tested / "eval/last")


def test_figures_are_left_out_on_request(tested, evaluate):
    evaluate(f"run={tested.as_posix()}", "ckpt=last", "figures=false")
    assert {path.name for path in (tested / "eval/last").iterdir()} == {"metrics.json", "predictions.csv"}
    shutil.rmtree(tested / "eval/last")


def on_paper(image: Image.Image) -> Image.Image:
    """The digit large, dark blue, and off the centre of a white sheet."""
    sheet = Image.new("RGB", (300, 260), "white")
    sheet.paste(ImageOps.colorize(image.resize((140, 140)), black="white", white="darkblue"), (120, 20))
    return sheet


@pytest.mark.parametrize("drawn", [Image.Image.copy, ImageOps.invert, on_paper])
def test_digits_are_recognised_in_black_white_and_colour_wherever_they_lie(trained, evaluate, tmp_path, drawn):
    images, labels = read_sample(train=False)
    chosen = range(0, 990, 33)
    (tmp_path / "mine").mkdir()
    for number in chosen:
        drawn(Image.fromarray(images[number, 0].numpy())).save(tmp_path / f"mine/{number:03}.png")
    evaluate(f"run={trained.as_posix()}", f"predict='{tmp_path.as_posix()}/mine'")
    found = [row["prediction"] for row in rows(trained / "eval/best/predictions_mine.csv")]
    shutil.rmtree(trained / "eval")
    right = sum(ours == str(labels[number].item()) for ours, number in zip(found, chosen, strict=True))
    # Three in four: one epoch of 3,500 images is no great school, and scaling blurs.
    assert right >= 0.75 * len(chosen)
