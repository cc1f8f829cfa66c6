import csv

import torch

from {{ cookiecutter.package }}.evaluation.predictions import write_predictions

PROBABILITIES = torch.tensor([[0.25, 0.75], [0.9, 0.1]])


def table(path) -> list[list[str]]:
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.reader(file))


def test_row_tells_label_prediction_and_all_probabilities(tmp_path):
    path = tmp_path / "predictions.csv"
    write_predictions(path, ["0", "1"], PROBABILITIES, ["cat", "dog"], ["dog", "cat"], ["cat", "cat"])
    assert table(path) == [
        ["sample", "label", "prediction", "confidence", "p(cat)", "p(dog)"],
        ["0", "cat", "dog", "0.750000", "0.250000", "0.750000"],
        ["1", "cat", "cat", "0.900000", "0.900000", "0.100000"],
    ]


def test_unlabelled_images_have_no_label_column(tmp_path):
    path = tmp_path / "predictions.csv"
    write_predictions(path, ["a, b.png", "ü.png"], PROBABILITIES, ["cat", "dog"], ["dog", "cat"])
    assert table(path)[0] == ["sample", "prediction", "confidence", "p(cat)", "p(dog)"]
    assert [row[0] for row in table(path)[1:]] == ["a, b.png", "ü.png"]


def test_no_cell_is_a_formula_or_moves_a_cursor(tmp_path):
    path = tmp_path / "predictions.csv"
    write_predictions(
        path, ["=HYPERLINK(1).png", "\x1b[2J\udcff\n.png"], PROBABILITIES, ["@cat", "-1+1"], ["-1+1", "@cat"]
    )
    cells = [cell for row in table(path) for cell in row]
    assert not any(cell.startswith(("=", "+", "-", "@", "\t", "\r")) for cell in cells)
    assert all(cell.isprintable() for cell in cells)
    assert [row[0] for row in table(path)[1:]] == ["'=HYPERLINK(1).png", r"\x1b[2J\udcff\n.png"]
