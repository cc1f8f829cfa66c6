"""A table of predictions, one row a sample."""

import csv
from collections.abc import Sequence
from pathlib import Path

from torch import Tensor

from ..file_names import as_cell


def write_predictions(
    path: Path,
    names: Sequence[str],
    probabilities: Tensor,
    classes: Sequence[str],
    answers: Sequence[str],
    labels: Sequence[str] | None = None,
) -> None:
    """Write a CSV with each sample's name, its label where known, the prediction, and every class's probability.

    Args:
        names: N of them, in the order of the rows; what a spreadsheet would take for a formula gets a quote before it.
        probabilities: (N, num_classes).
        classes: what to call each class.
        answers: N, what is predicted; `labels` likewise, or None for samples without.
    """
    confidence = probabilities.amax(dim=1)
    known = [] if labels is None else ["label"]
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["sample", *known, "prediction", "confidence", *(f"p({as_cell(name)})" for name in classes)])
        for row, name in enumerate(names):
            said = [answers[row]] if labels is None else [labels[row], answers[row]]
            writer.writerow(
                [as_cell(name), *map(as_cell, said), f"{confidence[row]:.6f}"]
                + [f"{probability:.6f}" for probability in probabilities[row]]
            )


def write_numbers(path: Path, predictions: Tensor, labels: Tensor | None) -> None:
    """Write a CSV with each sample's number, its label where known, and what was predicted: (N,) or (N, K) numbers."""
    columns = predictions.reshape(len(predictions), -1)
    names = ["prediction"] if columns.shape[1] == 1 else [f"prediction_{k}" for k in range(columns.shape[1])]
    known = [] if labels is None else ["label"]
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["sample", *known, *names])
        for row, numbers in enumerate(columns.tolist()):
            label = [] if labels is None else [labels[row].item()]
            # 7 digits: what float32 tells apart
            writer.writerow([row, *(f"{each:.7g}" if isinstance(each, float) else each for each in label + numbers)])
