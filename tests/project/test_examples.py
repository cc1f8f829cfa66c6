"""The examples of other tasks train, resume, and are evaluated as far as their data and modules allow."""

import csv
import json
import re

import pytest
import torch
from torchvision.models import resnet18

SHORT = (
    "trainer=cpu",
    "trainer.max_epochs=1",
    "++trainer.limit_train_batches=3",
    "++trainer.limit_val_batches=1",
    "++trainer.limit_test_batches=2",
)
FIGURES = {"calibration.png", "calibration.svg", "confusion_matrix.png", "confusion_matrix.svg"}
MISTAKES = {"worst_mistakes.png", "worst_mistakes.svg"}
# What is chosen beside the example, what eval.py writes beside the metrics, and what it says of the rest.
EXAMPLES = {
    "tabular_regression": ((), {"predictions.csv"}, "TableData has no class_names"),
    "text_classifier": ((), {"predictions.csv"} | FIGURES, "TextData has no image_shape"),
    "segmentation": (("data.batch_size=4",), set(), "CanvasData has no predict_dataloader"),
    "gan": ((), set(), "GAN has no predict_step"),
    "fine_tuning": (
        ("data=mnist_sample", "model.net.weights=weights.pth", "callbacks.unfreeze.epoch=1"),
        {"predictions.csv"} | FIGURES | MISTAKES,
        "",
    ),
}


def said(project, *command: str) -> str:
    finished = project.run(*command)
    assert finished.returncode == 0, finished.stdout + finished.stderr
    return " ".join(finished.stdout.split())


def newest(project):
    return max(project.folder.glob("outputs/*/*/*/run.json"), key=lambda path: path.stat().st_mtime).parent


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=pytest.mark.slow)
        if name in ("segmentation", "fine_tuning", "text_classifier")
        else name
        for name in EXAMPLES
    ],
)
def test_example_trains_resumes_and_is_evaluated(project, name):
    chosen, written, reason = EXAMPLES[name]
    torch.save(resnet18().state_dict(), project.folder / "weights.pth")
    said(project, "train.py", f"+experiment={name}", *SHORT, *chosen)
    said(project, "train.py", "resume=last", "trainer.max_epochs=2")
    run = newest(project)
    record = json.loads((run / "run.json").read_text(encoding="utf-8"))
    assert (record["state"], len(record["starts"])) == ("finished", 2)
    assert reason in said(project, "eval.py", "run=last", "batch_size=16")
    assert {path.name for path in (run / "eval/best").iterdir()} == {"metrics.json"} | written


def write_table(path, rows) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, rows[0])
        writer.writeheader()
        writer.writerows(rows)


@pytest.mark.slow
def test_own_table_of_numbers_words_and_empty_cells_is_read_and_new_rows_are_predicted(project, tmp_path):
    rows = [
        {"size": n if n % 9 else "", "town": ["oslo", "bergen", ""][n % 3], "rooms": n % 5, "price": 300 * n}
        for n in range(100)
    ]
    write_table(tmp_path / "houses.csv", rows)
    own = (f"data.csv='{tmp_path.as_posix()}/houses.csv'", "data.target=price", "data.unit=100")
    refused = project.run("train.py", "+experiment=tabular_regression", *SHORT, *own)
    right = "data.features=10 but houses.csv has 4, with one for each word of town; say data.features=4"
    assert refused.stderr.strip().splitlines()[-1] == right
    said(project, "train.py", "+experiment=tabular_regression", *SHORT, *own, "data.features=4")
    said(project, "eval.py", "run=last")
    assert {float(row["label"]) for row in predictions(project)} < {row["price"] / 100 for row in rows}

    new = [{name: cell for name, cell in row.items() if name != "price"} for row in rows[:7]]
    write_table(tmp_path / "new.csv", [new[0] | {"town": "a word of no training row"}, *new])
    shown = said(project, "eval.py", "run=last", f"predict='{tmp_path.as_posix()}/new.csv'")
    assert re.search(r"it begins sample,prediction( \d,\S+){5} written", shown)
    assert [set(row) for row in predictions(project, "_new")] == [{"sample", "prediction"}] * 8


def predictions(project, name: str = "") -> list[dict[str, str]]:
    with (newest(project) / f"eval/best/predictions{name}.csv").open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


@pytest.mark.slow
def test_new_texts_are_classified_and_data_that_read_no_files_say_so(project, tmp_path):
    write_table(tmp_path / "new.csv", [{"text": "the mean of the data"}, {"text": "parse the arguments"}])
    said(project, "train.py", "+experiment=text_classifier", *SHORT)
    said(project, "eval.py", "run=last", f"predict='{tmp_path.as_posix()}/new.csv'")
    assert {row["prediction"] for row in predictions(project, "_new")} <= {
        "argparse",
        "asyncio",
        "decimal",
        "email",
        "logging",
        "statistics",
    }
    said(project, "train.py", "+experiment=segmentation", *SHORT, "data.batch_size=4")
    refused = project.run("eval.py", "run=last", f"predict='{tmp_path.as_posix()}/new.csv'")
    assert "nothing can be predicted, since CanvasData has no predict_dataloader" in refused.stderr


@pytest.mark.slow
@pytest.mark.parametrize("form", ["torch_export"])
def test_module_with_an_example_input_is_exported_and_one_without_says_what_it_lacks(project, form):
    said(project, "train.py", "+experiment=tabular_regression", *SHORT)
    assert "(batch, 10) float32 -> (batch) outputs" in said(project, "eval.py", "run=last", f"export={form}")
    said(project, "train.py", "+experiment=text_classifier", *SHORT)
    finished = project.run("eval.py", "run=last", f"export={form}")
    assert finished.returncode == 1
    assert "set self.example_input_array" in finished.stderr
