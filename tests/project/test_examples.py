"""The examples of other tasks train, resume, and are evaluated as far as their data and modules allow."""

import csv
import json

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
        pytest.param(name, marks=pytest.mark.slow) if name in ("segmentation", "fine_tuning") else name
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


def test_own_table_is_read_and_predicted_beside_what_is_right(project, tmp_path):
    rows = [{"size": n, "rooms": n % 5, "price": 3 * n} for n in range(100)]
    with (tmp_path / "houses.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, ["size", "rooms", "price"])
        writer.writeheader()
        writer.writerows(rows)
    own = (f"data.csv='{tmp_path.as_posix()}/houses.csv'", "data.target=price", "model.features=2")
    said(project, "train.py", "+experiment=tabular_regression", *SHORT, *own)
    said(project, "eval.py", "run=last")
    with (newest(project) / "eval/best/predictions.csv").open(newline="", encoding="utf-8") as file:
        table = list(csv.DictReader(file))
    assert len(table) == 20
    assert {float(row["label"]) for row in table} < {row["price"] for row in rows}


@pytest.mark.slow
@pytest.mark.parametrize("form", ["torch_export"])
def test_module_with_an_example_input_is_exported_and_one_without_says_what_it_lacks(project, form):
    said(project, "train.py", "+experiment=tabular_regression", *SHORT)
    assert "(batch, 10) float32 -> (batch) outputs" in said(project, "eval.py", "run=last", f"export={form}")
    said(project, "train.py", "+experiment=text_classifier", *SHORT)
    finished = project.run("eval.py", "run=last", f"export={form}")
    assert finished.returncode == 1
    assert "set self.example_input_array" in finished.stderr
