"""Figures of a classifier's predictions. Nothing here needs a display."""

import math
from collections.abc import Sequence

import torch
from matplotlib.figure import Figure
from torch import Tensor
from torchmetrics.functional.classification import multiclass_confusion_matrix


def confusion_matrix(probabilities: Tensor, labels: Tensor, classes: Sequence[str]) -> Figure:
    """Draw counts of (label, prediction) from probabilities (N, C) and labels (N,), coloured by share of the row."""
    counts = multiclass_confusion_matrix(probabilities, labels, num_classes=len(classes))
    shares = counts / counts.sum(dim=1, keepdim=True).clamp(min=1)
    side = max(4.0, 0.55 * len(classes) + 1.5)  # inches
    figure = Figure(figsize=(side, side), layout="constrained")
    axes = figure.subplots()
    axes.imshow(shares, cmap="Blues", vmin=0, vmax=1)
    for label in range(len(classes)):
        for prediction in range(len(classes)):
            count = int(counts[label, prediction])
            if count:
                color = "white" if shares[label, prediction] > 0.5 else "black"
                axes.text(prediction, label, str(count), ha="center", va="center", color=color, fontsize=8)
    axes.set_xticks(range(len(classes)), classes, rotation=45 if max(map(len, classes)) > 2 else 0)
    axes.set_yticks(range(len(classes)), classes)
    axes.set(xlabel="predicted", ylabel="label", title=f"accuracy {counts.diagonal().sum() / counts.sum():.2%}")
    return figure


def worst_mistakes(images: Tensor, probabilities: Tensor, labels: Tensor, classes: Sequence[str], most: int) -> Figure:
    """Draw up to `most` wrongly classified images, the most confident first.

    Args:
        images: (N, C, H, W) uint8, C is 1 or 3.
        probabilities: (N, num_classes).
        labels: (N,).
        classes: what to call each class.
        most: how many at the most.
    """
    confidence, predicted = probabilities.max(dim=1)
    wrong = torch.nonzero(predicted != labels).flatten()
    worst = wrong[confidence[wrong].argsort(descending=True)][:most]
    columns = max(1, min(5, len(worst)))
    rows = max(1, math.ceil(len(worst) / columns))
    figure = Figure(figsize=(1.7 * columns, 2.0 * rows + 0.5), layout="constrained")
    figure.suptitle(f"{len(wrong)} mistakes in {len(labels)}" + (", the most confident" if len(wrong) > most else ""))
    for axes in figure.subplots(rows, columns, squeeze=False).flat:
        axes.axis("off")
    for axes, index in zip(figure.axes, worst.tolist(), strict=False):
        picture = images[index].permute(1, 2, 0)  # (C, H, W) -> (H, W, C)
        axes.imshow(picture.squeeze(-1), cmap="gray")
        axes.set_title(
            f"{classes[int(predicted[index])]} ({confidence[index]:.0%})\nis {classes[int(labels[index])]}", fontsize=8
        )
    return figure
